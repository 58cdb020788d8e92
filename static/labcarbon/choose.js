// Rows are chosen one by one or all at once; the button says how many.
(function () {
  "use strict";
  document.querySelectorAll("form[data-choose]").forEach((form) => {
    const boxes = [...form.querySelectorAll("input[name=item], input[name=line], input[name=run]")];
    const all = form.querySelector("[data-all]");
    const count = form.querySelector("[data-count]");
    function show() {
      const chosen = boxes.filter((box) => box.checked).length;
      boxes.forEach((box) => box.closest("tr").classList.toggle("chosen", box.checked));
      const what = form.dataset.choose || "line";
      if (count) count.textContent = chosen ? `${chosen} ${what}${chosen === 1 ? "" : "s"}` : "";
      if (all) { all.checked = chosen > 0 && chosen === boxes.length; all.indeterminate = chosen > 0 && chosen < boxes.length; }
    }
    if (all) all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); show(); });
    form.addEventListener("change", show);
    show();
  });
})();
