// The routing page without this script is complete: every picture is there, folded away. The script turns each group
// of pictures into a chooser, hides connections below a weight, and follows the connections of a node.
"use strict";

for (const chooser of document.querySelectorAll(".chooser")) {
  const choices = [...chooser.querySelectorAll(":scope > details")];
  if (!choices.length) continue;
  const controls = document.createElement("div");
  controls.className = "controls";
  chooser.prepend(controls);

  const label = (words, control) => {
    const made = document.createElement("label");
    made.append(words + " ", control);
    controls.append(made);
    return made;
  };

  const select = document.createElement("select");
  for (const [place, choice] of choices.entries()) {
    select.add(new Option(choice.querySelector("summary").textContent, place));
    choice.removeAttribute("name");
    choice.open = true;
  }
  const show = () => choices.forEach((choice, place) => { choice.hidden = place !== Number(select.value); });
  select.addEventListener("change", show);
  label(chooser.dataset.label, select);
  chooser.classList.add("scripted");
  show();

  const range = document.createElement("input");
  Object.assign(range, { type: "range", min: 0, max: 1, step: 0.01, value: 0 });
  const shown = document.createElement("output");
  const sift = () => {
    shown.textContent = Number(range.value).toFixed(2);
    for (const route of chooser.querySelectorAll(".route")) {
      route.classList.toggle("off", Number(route.dataset.weight) < Number(range.value));
    }
  };
  range.addEventListener("input", sift);
  label("weight at least", range).append(" ", shown);
  sift();
}

// A node can be pointed at, or reached with the tab key; its connections stay, the others fade.
for (const node of document.querySelectorAll(".chooser .node")) {
  const drawing = node.closest("svg");
  const follow = (on) => {
    drawing.classList.toggle("following", on);
    for (const route of drawing.querySelectorAll(".route")) {
      const own = route.dataset.from === node.dataset.node || route.dataset.to === node.dataset.node;
      route.classList.toggle("lit", on && own);
    }
  };
  node.setAttribute("tabindex", "0");
  for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => follow(true));
  for (const event of ["pointerleave", "blur"]) node.addEventListener(event, () => follow(false));
}
