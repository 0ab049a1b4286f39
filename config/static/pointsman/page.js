"use strict";
// What every page has: countdowns, menus that close, parts that refresh themselves.
(function () {
  // As tenants/adminchips.py says it.
  const chinese = document.documentElement.lang.startsWith("zh");
  const units = chinese ? [" 秒", " 分钟", " 小时", " 天"] : [" s", " min", " h", " d"];
  function left(seconds) {
    if (seconds < 120) { return seconds + units[0]; }
    if (seconds < 7200) { return Math.floor(seconds / 60) + units[1]; }
    if (seconds < 172800) { return Math.floor(seconds / 3600) + units[2]; }
    return Math.floor(seconds / 86400) + units[3];
  }
  function tick() {
    document.querySelectorAll(".countdown[data-until]").forEach(function (spot) {
      spot.textContent = left(Math.max(0, Math.round((Date.parse(spot.dataset.until) - Date.now()) / 1000)));
    });
  }
  tick();
  setInterval(tick, 1000);

  // Lengths come as data, in per cent: the content policy allows no style attributes.
  function place(root) {
    ["left", "width", "height"].forEach(function (side) {
      root.querySelectorAll("[data-" + side + "]").forEach(function (spot) {
        spot.style[side] = Number(spot.dataset[side]) + "%";
      });
    });
  }
  place(document);

  const menus = Array.from(document.querySelectorAll(".menu-section"));
  document.addEventListener("click", function (event) {
    menus.forEach(function (menu) {
      if (menu.open && !menu.contains(event.target)) { menu.open = false; }
    });
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { menus.forEach(function (menu) { menu.open = false; }); }
  });
  const all = document.querySelector(".menu-all");
  if (all) {
    // On a phone the style sheet keeps the menu folded until it is asked for the first time.
    all.querySelector("summary").addEventListener("click", function (event) {
      if (!all.classList.contains("asked")) {
        all.classList.add("asked");
        event.preventDefault();
      }
    });
  }

  document.querySelectorAll(".inline-group .tabular table").forEach(function (table) {
    const heads = Array.from(table.querySelectorAll("thead th"));
    table.querySelectorAll("tbody tr.form-row").forEach(function (row) {
      Array.from(row.querySelectorAll(":scope > td:not(.original)")).forEach(function (cell) {
        const name = Array.from(cell.classList).find(function (each) { return each.startsWith("field-"); });
        const head = name && heads.find(function (each) { return each.classList.contains(name.replace("field-", "column-")); });
        if (cell.classList.contains("delete")) { cell.dataset.label = heads[heads.length - 1].textContent.trim(); }
        if (head) { cell.dataset.label = head.textContent.trim(); }
      });
    });
  });

  // On a phone a list's row is a card with what matters; the rest unfolds.
  const list = document.getElementById("result_list");
  if (list) {
    const heads = Array.from(list.querySelectorAll("thead th")).map(function (head) {
      const text = head.querySelector(".text");
      return text ? text.textContent.trim() : "";
    });
    list.querySelectorAll("tbody tr").forEach(function (row) {
      let shown = 0;
      Array.from(row.children).forEach(function (cell, place) {
        if (cell.tagName === "TD" && heads[place]) { cell.dataset.label = heads[place]; }
        if (cell.classList.contains("action-checkbox")) { return; }
        shown += 1;
        if (shown > 3 && !cell.querySelector(".chip")) { cell.classList.add("later"); }
      });
      if (!row.querySelector(".later")) { return; }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button small secondary more";
      button.textContent = "…";
      button.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-label", chinese ? "展开" : "more");
      button.addEventListener("click", function () {
        button.setAttribute("aria-expanded", String(row.classList.toggle("unfolded")));
      });
      row.firstElementChild.appendChild(button);
    });
  }

  // A fragment is fetched and put in place, part by part where it names its parts: only what says something new is
  // written, and never under the focus. Other rows than before are put in whole, when nobody works or points there.
  function face(part) {
    const copy = part.cloneNode(true);
    copy.querySelectorAll("input[name=csrfmiddlewaretoken]").forEach(function (field) { field.remove(); });
    copy.querySelectorAll(".countdown").forEach(function (spot) {
      spot.textContent = "";
      spot.dataset.until = String(Math.round(Date.parse(spot.dataset.until) / 3000));
    });
    return copy.innerHTML;
  }
  function names(parts) {
    return parts.map(function (part) { return part.dataset.part; }).join();
  }
  function renew(whole, text) {
    const fresh = document.createElement("template");
    fresh.innerHTML = text;
    place(fresh.content);
    const old = Array.from(whole.querySelectorAll("[data-part]"));
    const next = Array.from(fresh.content.querySelectorAll("[data-part]"));
    if (old.length && names(old) === names(next)) {
      old.forEach(function (part, place) {
        if (face(part) !== face(next[place]) && !part.contains(document.activeElement)) {
          part.replaceChildren.apply(part, Array.from(next[place].childNodes));
        }
      });
    } else if (!whole.contains(document.activeElement) && !whole.matches(":hover")) {
      whole.replaceChildren(fresh.content);
    }
    tick();
  }
  document.querySelectorAll("[data-refresh]").forEach(function (part) {
    setInterval(function () {
      if (document.hidden) { return; }
      fetch(part.dataset.refresh, { credentials: "same-origin", redirect: "error" })
        .then(function (answer) { return answer.ok ? answer.text() : null; })
        .then(function (text) { if (text !== null) { renew(part, text); } })
        .catch(function () { /* the next round tries again */ });
    }, 1000 * Number(part.dataset.every));
  });
}());
