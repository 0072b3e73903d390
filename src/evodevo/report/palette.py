"""The colours of all drawings, light and dark, and the one style sheet that holds them.

Drawings name roles (``fill-attention``, ``stroke-muted``), never colours, so that one string is legible on white
and on black. Family hues are those of Okabe and Ito (2008), made darker or lighter until text on them is readable;
colour is never the only sign: families differ by glyph, states by marker, operations by dash. Generations use
viridis, cut so that the newest generation has the strongest contrast on either ground. Tasks of a system have eight
colours that stay apart (0.12 in OKLab) for all eyes; a drawing numbers its tasks, and dashes those that share a colour.
Modules of a network have a colour each, at least 0.12 in OKLab from any other, and so have the lines of a chart of more
than five; no drawing has more than there are.

The sheet uses literal colours and no ``url()``, so that programs which read only plain SVG show the light form.
"""

from __future__ import annotations

FAMILIES = ("attention", "recurrence", "convolution", "memoryless", "other")
GENERATION_STEPS = 12
GROUP_TINTS = 8
TASK_COLOURS = 8

# role: (on white, on black)
_ROLES: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171c"),
    "panel": ("#f6f7f9", "#1b1f26"),
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#59636e", "#9aa4af"),
    "faint": ("#e1e5ea", "#2d333b"),
    "failed": ("#b0005b", "#ff7ab8"),
    "attention": ("#0068a5", "#56b4e9"),
    "recurrence": ("#b84c00", "#f29a5c"),
    "convolution": ("#007a5a", "#35c79a"),
    "memoryless": ("#656b73", "#a0a6ae"),
    "other": ("#8a3f86", "#d79bd0"),
    "attention-soft": ("#d9e9f6", "#17364c"),
    "recurrence-soft": ("#fbe3d3", "#4a2a16"),
    "convolution-soft": ("#d5efe5", "#133f34"),
    "memoryless-soft": ("#eaecef", "#2a2f36"),
    "other-soft": ("#f2e2f0", "#40293d"),
}
_GROUPS = (
    ("#cfe3f5", "#1d4768"),
    ("#ffdcc2", "#63381a"),
    ("#c9ecd9", "#1b5341"),
    ("#f3d3e6", "#5e2f4e"),
    ("#fff0b3", "#575018"),
    ("#d9d3f2", "#40387a"),
    ("#cdeef2", "#1a5058"),
    ("#e4dccf", "#524634"),
)
_TASKS = (
    ("#224bfa", "#3ea0ff"),
    ("#a89407", "#dcdf54"),
    ("#af00ac", "#f551bf"),
    ("#22555c", "#0d7f70"),
    ("#06a4af", "#96edf8"),
    ("#5e0604", "#cd3024"),
    ("#3d136e", "#8e33f9"),
    ("#76681b", "#a5b46c"),
)
_MODULES = (
    ("#0068a5", "#56b4e9"),
    ("#ff00ff", "#d20000"),
    ("#f06900", "#ffff00"),
    ("#00a500", "#ff00ff"),
    ("#780000", "#1e7800"),
    ("#8700ff", "#5a3cff"),
    ("#005a00", "#00d200"),
    ("#b43c87", "#ff960f"),
    ("#4b0087", "#ffe1ff"),
    ("#0000f0", "#00ffe1"),
    ("#8787ff", "#876996"),
    ("#87693c", "#ff87c3"),
    ("#1ea5a5", "#b400b4"),
    ("#003c5a", "#a5780f"),
    ("#b48796", "#b478ff"),
    ("#ff4ba5", "#ff0087"),
    ("#d20000", "#a5c387"),
    ("#a5960f", "#1ea578"),
    ("#0f69ff", "#0078d2"),
    ("#693c69", "#78ff4b"),
    ("#8700a5", "#e1695a"),
    ("#785ac3", "#ffd278"),
    ("#c300d2", "#1e7878"),
    ("#00875a", "#c3b4ff"),
)
MODULE_COLOURS = len(_MODULES)
_VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")


def _viridis(position: float) -> str:
    """The colour at ``position`` in 0..1, linear between nine anchors of the published map."""
    place = min(max(position, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    index = min(int(place), len(_VIRIDIS) - 2)
    share = place - index
    left, right = ([int(_VIRIDIS[step][at : at + 2], 16) for at in (1, 3, 5)] for step in (index, index + 1))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(left, right, strict=True))


def generation_role(generation: int, last: int) -> str:
    """The role of a generation's colour, for generations 0 to ``last``."""
    step = GENERATION_STEPS - 1 if last <= 0 else round(generation / last * (GENERATION_STEPS - 1))
    return f"generation-{min(max(step, 0), GENERATION_STEPS - 1)}"


def family_role(family: str) -> str:
    """The role of an operator family; families that are not of the paper's four share one."""
    return family if family in FAMILIES else "other"


def group_role(group: int) -> str:
    """The tint of a sharing group; tints repeat after eight, so that drawings letter the groups too."""
    return f"group-{group % GROUP_TINTS}"


def task_role(number: int) -> str:
    """The colour of a system's task by its place; colours repeat after eight."""
    return f"task-{number % TASK_COLOURS}"


def module_role(number: int) -> str:
    """The colour of one module, or line, among at most ``MODULE_COLOURS``, by its place; no two have the same."""
    if not 0 <= number < MODULE_COLOURS:
        raise ValueError(f"there are {MODULE_COLOURS} colours of modules, and none with the number {number}")
    return f"module-{number}"


def roles() -> dict[str, tuple[str, str]]:
    """Every role with its colour on white and its colour on black."""
    steps = range(GENERATION_STEPS)
    generations = {
        # Newest strongest: dark purple on white, yellow on black.
        f"generation-{step}": (
            _viridis(0.80 - 0.80 * step / (GENERATION_STEPS - 1)),
            _viridis(0.28 + 0.72 * step / (GENERATION_STEPS - 1)),
        )
        for step in steps
    }
    groups = {f"group-{index}": pair for index, pair in enumerate(_GROUPS)}
    tasks = {f"task-{index}": pair for index, pair in enumerate(_TASKS)}
    modules = {f"module-{index}": pair for index, pair in enumerate(_MODULES)}
    return {**_ROLES, **groups, **tasks, **modules, **generations}


def _rules(shade: int) -> str:
    parts = []
    for role, pair in roles().items():
        parts.append(f".diagram .fill-{role}{{fill:{pair[shade]}}}")
        parts.append(f".diagram .stroke-{role}{{stroke:{pair[shade]}}}")
    return "".join(parts)


STYLE = (
    ".diagram text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}"
    ".diagram .mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".diagram .strong{font-weight:600}"
    ".diagram .hollow{fill:none}" + _rules(0) + "@media screen and (prefers-color-scheme:dark){" + _rules(1) + "}"
)
