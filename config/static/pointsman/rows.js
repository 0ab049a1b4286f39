"use strict";
// Fields of small rows (tenants/formrows.py): a button that adds an empty one.
(function () {
  function next(field, row, place) {
    const made = row.cloneNode(true);
    const name = field.dataset.name;
    const old = new RegExp("^((?:id_)?" + name + "-)\\d+(?=-)");
    made.querySelectorAll("[name], [id], [for]").forEach(function (part) {
      ["name", "id", "for"].forEach(function (kind) {
        const value = part.getAttribute(kind);
        if (value) { part.setAttribute(kind, value.replace(old, "$1" + place)); }
      });
    });
    made.querySelectorAll("input").forEach(function (part) {
      if (part.type === "checkbox") { part.checked = false; } else { part.value = ""; }
    });
    if (field.dataset.glue && !made.querySelector(".rows-glue")) {
      const glue = document.createElement("span");
      glue.className = "rows-glue";
      glue.textContent = field.dataset.glue;
      made.insertBefore(glue, made.firstChild);
    }
    return made;
  }
  function isEmpty(row) {
    return Array.from(row.querySelectorAll("input")).every(function (part) {
      return part.type === "checkbox" ? !part.checked : !part.value;
    });
  }
  document.querySelectorAll(".rows[data-add]").forEach(function (field) {
    if (!field.dataset.add) { return; }
    const found = field.querySelectorAll(":scope > .rows-row");
    const blank = found[found.length - 1];
    if (found.length > 1 && isEmpty(blank)) { blank.remove(); }
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small secondary";
    button.textContent = field.dataset.add;
    button.addEventListener("click", function () {
      const all = field.querySelectorAll(":scope > .rows-row");
      const made = next(field, blank, all.length);
      field.insertBefore(made, button);
      made.querySelector("select, input").focus();
    });
    field.appendChild(button);
  });
}());
