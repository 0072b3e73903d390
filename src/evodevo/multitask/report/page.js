// The page on a system without this script is complete: every state of its graph is there, folded away. The script
// turns them into slides with one slider, and follows the path of a task through the graph.
"use strict";

for (const slides of document.querySelectorAll(".slides")) {
  const frames = [...slides.querySelectorAll(":scope > details")];
  if (frames.length < 2) continue;
  const controls = document.createElement("div");
  controls.className = "controls";

  const range = document.createElement("input");
  const last = frames.length - 1;
  Object.assign(range, { type: "range", min: 0, max: last, step: 1, value: last });
  const words = document.createElement("output");
  const label = document.createElement("label");
  label.append(slides.dataset.label + " ", range, " ", words);
  const play = document.createElement("button");
  Object.assign(play, { type: "button", textContent: "play" });
  controls.append(label, play);
  slides.prepend(controls);

  for (const frame of frames) {
    frame.removeAttribute("name");
    frame.open = true;
  }
  slides.classList.add("scripted");
  const show = () => {
    const chosen = Number(range.value);
    frames.forEach((frame, place) => { frame.hidden = place !== chosen; });
    words.textContent = frames[chosen].querySelector("summary").textContent;
  };
  range.addEventListener("input", show);
  show();

  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
  };
  const step = () => {
    if (Number(range.value) >= last) return stop();
    range.value = Number(range.value) + 1;
    show();
  };
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (Number(range.value) >= last) range.value = 0;
    show();
    play.textContent = "stop";
    timer = setInterval(step, 1200);
  });
  range.addEventListener("pointerdown", stop);
}

// The path of a task that is pointed at, or reached with the tab key, stays; the others fade.
for (const route of document.querySelectorAll(".slides .route, .slides .foot")) {
  const drawing = route.closest("svg");
  const follow = (on) => {
    drawing.classList.toggle("following", on);
    for (const other of drawing.querySelectorAll(".route")) {
      other.classList.toggle("lit", on && other.dataset.task === route.dataset.task);
    }
  };
  if (route.classList.contains("foot")) route.setAttribute("tabindex", "0");
  for (const event of ["pointerenter", "focus"]) route.addEventListener(event, () => follow(true));
  for (const event of ["pointerleave", "blur"]) route.addEventListener(event, () => follow(false));
}
