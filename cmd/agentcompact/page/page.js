(() => {
  "use strict";
  const root = document.getElementById("timeline");
  const input = document.getElementById("q");
  const found = document.getElementById("found");
  const boxes = [...root.querySelectorAll("details")];
  const messages = boxes.filter((d) => d.classList.contains("msg"));
  const texts = messages.map((d) => d.textContent.toLowerCase());
  const checks = boxes.filter((d) => d.classList.contains("check"));
  let opened = new Set();

  const search = () => {
    const want = input.value.trim().toLowerCase();
    for (const d of opened) d.open = false;
    opened = new Set();
    if (!want) {
      for (const d of boxes) d.classList.remove("miss");
      found.textContent = "";
      return;
    }
    const keep = new Set();
    let hits = 0;
    messages.forEach((d, i) => {
      const hit = texts[i].includes(want);
      d.classList.toggle("miss", !hit);
      if (!hit) return;
      hits++;
      for (let up = d.parentElement.closest("details"); up; up = up.parentElement.closest("details")) keep.add(up);
    });
    for (const d of checks) {
      d.classList.toggle("miss", !keep.has(d));
      if (keep.has(d) && !d.open) {
        d.open = true;
        opened.add(d);
      }
    }
    found.textContent = hits === 1 ? "1 message" : hits + " messages";
  };

  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 120);
  });
  input.form.addEventListener("submit", (e) => {
    e.preventDefault();
    search();
  });
  const all = (open) => {
    opened = new Set();
    for (const d of boxes) d.open = open;
  };
  document.getElementById("open").addEventListener("click", () => all(true));
  document.getElementById("shut").addEventListener("click", () => all(false));
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== input && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      input.focus();
    } else if (e.key === "Escape" && document.activeElement === input) {
      input.value = "";
      search();
    }
  });
})();
