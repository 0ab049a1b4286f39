"use strict";
// Buttons that copy the text of another element: data-copy="its id".
(function () {
  function copied(button) {
    const words = button.textContent;
    button.textContent = button.dataset.done;
    setTimeout(function () { button.textContent = words; }, 2000);
  }
  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }
  document.querySelectorAll("[data-copy]").forEach(function (button) {
    button.addEventListener("click", function () {
      const element = document.getElementById(button.dataset.copy);
      const text = element.textContent;
      if (navigator.clipboard && window.isSecureContext) {
        navigator.clipboard.writeText(text).then(function () { copied(button); }, function () { select(element); });
      } else {
        select(element);
        if (document.execCommand("copy")) { copied(button); }
      }
    });
  });
}());
