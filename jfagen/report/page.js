"use strict";
// Colours: as the system has them, light, dark.
const root = document.documentElement;
const button = document.getElementById("theme");
const themes = ["system", "light", "dark"];
function remembered() {
  try { return localStorage.getItem("jfagen-theme"); } catch { return null; }
}
function show(theme) {
  if (theme === "system") root.removeAttribute("data-theme");
  else root.dataset.theme = theme;
  button.textContent = `Colours: ${theme}`;
  button.setAttribute("aria-label", button.textContent);
  button.value = theme;
  try { localStorage.setItem("jfagen-theme", theme); } catch { /* a file without storage */ }
}
show(themes.includes(remembered()) ? remembered() : "system");
button.addEventListener("click", () => {
  show(themes[(themes.indexOf(button.value) + 1) % themes.length]);
});

// Lines that belong together light up together.
const texts = document.querySelector(".texts");
let current = null;  // the line that was last followed or focused; what is pointed at only lights
function light(line) {
  for (const one of texts.querySelectorAll(".lit")) one.classList.remove("lit");
  for (const one of texts.querySelectorAll(`[data-s="${line}"]`)) one.classList.add("lit");
}
function lineOf(node) {
  const line = node.closest ? node.closest("[data-s]") : null;
  return line ? line.dataset.s : null;
}
function choose(line) {
  current = line;
  light(line);
}
texts.addEventListener("pointerover", (event) => {
  const line = lineOf(event.target);
  if (line !== null) light(line);
});
texts.addEventListener("focusin", (event) => {
  const line = lineOf(event.target);
  if (line !== null) choose(line);
});
function follow() {
  const target = /^#[sk]\d+$/.test(location.hash) ? document.querySelector(location.hash) : null;
  if (target && target.dataset.s) choose(target.dataset.s);
}
addEventListener("hashchange", follow);
follow();

// n and p: the next and the previous block of the kernel that comes from the same line.
addEventListener("keydown", (event) => {
  if (current === null || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key !== "n" && event.key !== "p") return;
  const blocks = [...document.querySelectorAll(`#kernel [data-s="${current}"]`)].filter((line) => {
    const before = line.previousElementSibling;
    return !before || before.dataset.s !== current;
  });
  if (!blocks.length) return;
  const here = blocks.findIndex((line) => `#${line.id}` === location.hash);
  const step = event.key === "n" ? 1 : -1;
  const next = here < 0 ? (step > 0 ? 0 : blocks.length - 1) : here + step;
  location.hash = blocks[(next + blocks.length) % blocks.length].id;
});

// The barriers of an op that is pointed at or focused.
const roles = document.getElementById("roles");
function mark(event, on) {
  const op = event.target.closest ? event.target.closest("a[id]") : null;
  if (!op) return;
  const ends = `path[data-first="${op.id}"], path[data-second="${op.id}"]`;
  for (const path of roles.querySelectorAll(ends)) path.classList.toggle("on", on);
}
for (const kind of ["pointerover", "focusin"]) roles.addEventListener(kind, (e) => mark(e, true));
for (const kind of ["pointerout", "focusout"]) roles.addEventListener(kind, (e) => mark(e, false));
