// Selects rows one by one or all at once, and shows the number of selected rows.
(function () {
  "use strict";
  document.querySelectorAll("form[data-choose]").forEach((form) => {
    const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
    const all = form.querySelector("[data-all]");
    const count = form.querySelector("[data-count]");
    const whole = form.querySelector("[data-whole]"); // includes all rows
    const number = (box) => Number(box.dataset.number || 1);
    function update() {
      const chosen = boxes.filter((box) => box.checked).length;
      const total = boxes.filter((box) => box.checked).reduce((sum, box) => sum + number(box), 0);
      const selected = whole && whole.checked ? number(whole) : total;
      boxes.forEach((box) => box.closest("tr").classList.toggle("chosen", box.checked));
      const noun = form.dataset.choose || "row";
      if (count) count.textContent = selected ? `${selected} ${noun}${selected === 1 ? "" : "s"} selected` : "";
      if (all) { all.checked = chosen > 0 && chosen === boxes.length; all.indeterminate = chosen > 0 && chosen < boxes.length; }
    }
    if (all) all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); update(); });
    form.addEventListener("change", update);
    update();
  });
})();
