// The search: "/" and Ctrl-K open the dialog, arrows move through its results, Escape closes it.
(function () {
  "use strict";
  const dialog = () => document.getElementById("search-dialog");
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");
  // The browser returns the focus when the dialog closes.
  function open(text) {
    const box = dialog();
    if (!box || box.open) return;
    box.showModal();
    const input = box.querySelector("[data-find-text]");
    input.focus();
    input.select();
    if (text) input.value = text;
    const update = () => { if (input.value) window.htmx.trigger(input, "refresh"); };
    if (window.htmx) update(); else load(box, update);
  }
  function load(box, then) {
    const script = document.createElement("script");
    script.src = box.dataset.htmx;
    script.onload = () => { window.htmx.process(box); then(); };
    document.head.append(script);
  }
  function move(event, area) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const stops = [area.querySelector("[data-find-text]"), ...area.querySelectorAll("[data-result]")];
    const at = stops.indexOf(event.target);
    const next = stops[at + step];
    if (at < 0) return;
    event.preventDefault();
    if (next) next.focus();
  }
  document.addEventListener("keydown", (event) => {
    const isShortcut = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event.target);
    const area = event.target.closest("[data-find]");
    if (dialog() && (isShortcut || isSlash)) { event.preventDefault(); open(""); }
    else if (area) move(event, area);
  });
  document.addEventListener("click", (event) => {
    const input = event.target.closest("[data-find-open]");
    if (input) open(input.value);
    else if (event.target === dialog()) dialog().close(); // its backdrop
  });
})();
