"use strict";
// Of the explained presets of a failover policy, only the chosen one is shown.
(function () {
  document.querySelectorAll("[data-policy]").forEach(function (policy) {
    const choice = policy.querySelector("select");
    if (!choice) { return; }
    function show() {
      policy.querySelectorAll(".preset-words").forEach(function (words) {
        words.hidden = words.dataset.preset !== choice.value;
      });
    }
    choice.addEventListener("change", show);
    show();
  });
}());
