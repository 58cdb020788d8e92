// Keyboard shortcuts ("?" shows help, g and o, p, r, a or n opens a page, Escape closes menus), copy buttons, and submit
// buttons that work once. Search: search.js.
(function () {
  "use strict";
  // The page of the navigation whose name begins with the letter.
  const page = (letter) => "opran".includes(letter) && [...document.querySelectorAll(".navigation nav a:not(.brand)")]
    .find((link) => link.textContent.trim().toLowerCase().startsWith(letter));
  let isPending = false;
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.querySelectorAll("details.menu[open]").forEach((menu) => {
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "?") document.getElementById("help")?.showModal();
    else if (isPending && page(event.key)) location.assign(page(event.key).href);
    isPending = event.key === "g";
  });
  document.addEventListener("click", (event) => {
    document.querySelectorAll("details.menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
    if (event.target.closest("[data-help]")) document.getElementById("help")?.showModal();
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const done = () => {
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 1500);
    };
    const select = () => getSelection().selectAllChildren(source);
    if (!navigator.clipboard) { select(); return; }
    navigator.clipboard.writeText(source.textContent.trim()).then(done, select);
  }
  document.addEventListener("submit", (event) => {
    // Disable the buttons of a submitted form, but only after the browser has read which button was pressed.
    if (event.target.method === "post") setTimeout(() => {
      event.target.querySelectorAll("button").forEach((b) => { b.disabled = true; });
    });
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) document.querySelectorAll("button[disabled]").forEach((b) => { b.disabled = false; });
  });
})();
