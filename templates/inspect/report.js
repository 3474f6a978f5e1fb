"use strict";
// Everything that is shown is set as text, never as markup: names and code come from whoever made the bundle.
(() => {
  const ROW = 18; // pixels, as --row in the style
  const MARGIN = 30; // rows that are drawn beyond those in sight
  const MOST = 1000; // images that a table shows at a time: a browser lays out so many at once
  const NAMES = { sass: "SASS", ptx: "PTX", ltoir: "LTO-IR", tileir: "Tile IR" };
  const ORDER = ["tileir", "ltoir", "ptx", "sass"];
  const by = (id) => document.getElementById(id);
  const data = JSON.parse(by("data").textContent);

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value;
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  // --- colours ---------------------------------------------------------------------------------------------------------------------

  const THEMES = ["system", "light", "dark"];
  function keep(theme) {
    try { localStorage.setItem("tilec-theme", theme); } catch { /* a file may have no storage */ }
  }
  function kept() {
    try { return localStorage.getItem("tilec-theme"); } catch { return null; }
  }
  function colour(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    by("theme").textContent = `colours: ${theme}`;
  }
  let theme = THEMES.includes(kept()) ? kept() : "system";
  colour(theme);
  by("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    colour(theme);
    keep(theme);
  });

  // --- tables ----------------------------------------------------------------------------------------------------------------------

  function sortable(table) {
    const heads = [...table.querySelectorAll("th")];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const number = head.classList.contains("n");
        const before = head.getAttribute("aria-sort");
        // What needs most stands on top first; names begin with a.
        const order = before === "none" ? (number ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const value = (row) => (number ? Number(row.cells[column].dataset.v) : row.cells[column].textContent);
        const compare = number ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true });
        const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
        rows.sort((a, b) => sign * compare(a[0], b[0]));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
        narrow();
      });
    });
  }

  function narrow() {
    const words = by("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const warned = by("warned").checked;
    const rows = [...by("images").tBodies[0].rows];
    let found = 0;
    for (const row of rows) {
      const text = `${row.dataset.kernel} ${row.cells[0].textContent} ${row.cells[1].textContent}`.toLowerCase();
      const alarming = Number(row.cells[9].dataset.v) > 0;
      const fits = words.every((word) => text.includes(word)) && (!warned || alarming);
      if (fits) found += 1;
      row.hidden = !fits || found > MOST;
    }
    const of = found === rows.length ? `${found}` : `${found} of ${rows.length}`;
    by("images-count").textContent = found > MOST ? `${of}, of which the first ${MOST} are shown` : of;
    by("none").hidden = found > 0;
  }

  for (const id of ["kernels", "images"]) sortable(by(id));
  for (const table of [by("kernels"), by("images")]) {
    const titles = [...table.querySelectorAll("th")].map((head) => head.textContent);
    for (const row of table.tBodies[0].rows) {
      for (const title of ["spills", "warnings"]) {
        const cell = row.cells[titles.indexOf(title)];
        cell.classList.toggle("bad", Number(cell.dataset.v) > 0);
      }
    }
  }
  narrow();
  by("filter").addEventListener("input", narrow);
  by("warned").addEventListener("change", narrow);
  by("kernels").addEventListener("click", (event) => {
    const link = event.target.closest("[data-kernel]");
    if (!link) return;
    by("filter").value = link.dataset.kernel;
    narrow();
    by("filter").scrollIntoView({ block: "nearest" });
  });

  // --- code ------------------------------------------------------------------------------------------------------------------------

  const unpacked = new Map();
  function listing(name) {
    if (!unpacked.has(name)) unpacked.set(name, unpack(name));
    return unpacked.get(name);
  }
  async function unpack(name) {
    const bytes = Uint8Array.from(atob(by(name).textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const found = JSON.parse(await new Response(stream).text());
    found.hits = new Map(); // "file:line" to the numbers of the lines that come from there
    (found.at ?? []).forEach((at, number) => {
      for (const place of at < 0 ? [] : found.places[at]) {
        const key = place.join(":");
        if (!found.hits.has(key)) found.hits.set(key, []);
        found.hits.get(key).push(number);
      }
    });
    return found;
  }

  // A scrolled list that holds no more than the rows in sight.
  class Pane {
    constructor(kind, title) {
      this.kind = kind;
      this.title = make("span", {}, title);
      this.head = make("h3", {}, this.title);
      this.shown = make("div", { class: "shown" });
      this.whole = make("div", { class: "whole" }, this.shown);
      this.scroll = make("div", { class: "scroll" }, this.whole);
      this.node = make("section", { class: "pane", "data-kind": kind }, this.head, this.scroll);
      this.lines = [];
      this.hits = new Set();
      this.marks = [];
      this.chosen = -1;
      this.scroll.addEventListener("scroll", () => this.draw());
      this.scroll.addEventListener("click", (event) => {
        const row = event.target.closest(".linked");
        if (row) this.pick(Number(row.dataset.line));
      });
    }

    show(lines, gutter, linked) {
      this.lines = lines;
      this.gutter = gutter;
      this.linked = linked;
      const widest = lines.reduce((most, line) => Math.max(most, line.length), 0);
      this.digits = lines.reduce((most, _, number) => Math.max(most, gutter(number).length), 1);
      this.whole.style.height = `${lines.length * ROW}px`;
      this.whole.style.minWidth = `${widest + this.digits + 8}ch`;
      this.draw();
    }

    draw() {
      const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - MARGIN);
      const last = Math.min(this.lines.length, Math.ceil((this.scroll.scrollTop + (this.scroll.clientHeight || 600)) / ROW) + MARGIN);
      const rows = [];
      for (let number = first; number < last; number += 1) {
        const gutter = make("span", { class: "gutter" }, this.gutter(number).padStart(this.digits));
        const row = make("div", { class: "row", "data-line": number }, gutter, make("span", { class: "text" }, this.lines[number]));
        row.classList.toggle("linked", this.linked(number));
        row.classList.toggle("hit", this.hits.has(number));
        row.classList.toggle("chosen", this.chosen === number);
        rows.push(row);
      }
      this.shown.style.top = `${first * ROW}px`;
      this.shown.replaceChildren(...rows);
    }

    // Marks lines; scrolls to one of them, unless that is where the reader is looking.
    mark(marks, at, still) {
      this.marks = marks;
      this.hits = new Set(marks);
      this.chosen = at;
      if (!still && at >= 0) this.scroll.scrollTop = Math.max(0, at * ROW - this.scroll.clientHeight / 3);
      this.draw();
    }
  }

  class CodePane extends Pane {
    constructor(image, view) {
      super(image.form, image.form === "tileir" ? NAMES.tileir : `${NAMES[image.form]} ${image.target}`);
      this.image = image;
      this.view = view;
      this.found = null;
    }

    async load() {
      if (!this.image.code) {
        this.scroll.replaceChildren(make("p", { class: "empty" }, this.image.note || "no code"));
        return;
      }
      this.found = await listing(this.image.code);
      const { at, places } = this.found;
      const gutter = (number) => (at[number] < 0 ? "" : String(places[at[number]][0][1]));
      this.show(this.found.lines, gutter, (number) => at[number] >= 0);
    }

    pick(number) {
      const [file, line] = this.found.places[this.found.at[number]][0];
      this.view.choose(file, line, this, number);
    }

    follow(key, turn, from, number) {
      const marks = this.found?.hits.get(key) ?? [];
      if (this === from) this.mark(marks, number, true);
      else this.mark(marks, marks.length ? marks[turn % marks.length] : -1, false);
    }
  }

  class SourcePane extends Pane {
    constructor(view) {
      super("source", "source");
      this.view = view;
      this.select = make("select", { "aria-label": "source file" });
      this.head.append(this.select);
      this.select.addEventListener("change", () => this.open(Number(this.select.value)));
      this.file = -1;
    }

    offer(files) {
      this.select.replaceChildren(...files.map((file) => make("option", { value: file }, data.files[file].name)));
    }

    async open(file) {
      this.file = file;
      this.select.value = String(file);
      const { code, note } = data.files[file];
      if (!code) {
        this.show([], () => "", () => false);
        this.scroll.replaceChildren(make("p", { class: "empty" }, note));
        return;
      }
      const found = await listing(code);
      if (this.file !== file) return;
      this.scroll.replaceChildren(this.whole);
      const counts = this.view.counts(file);
      const gutter = (number) => `${counts.get(number + 1) ?? ""} ${String(number + 1).padStart(4)}`;
      this.hits = new Set();
      this.chosen = -1;
      this.show(found.lines, gutter, (number) => this.view.known(file, number + 1));
    }

    pick(number) {
      this.view.choose(this.file, number + 1, this, number);
    }

    async follow(file, line, from) {
      if (this.file !== file) await this.open(file);
      if (data.files[file].code) this.mark([line - 1], line - 1, this === from);
    }
  }

  // One image with the other forms of its variant beside it, and the source that they come from.
  class View {
    constructor(image) {
      const same = data.images.filter((one) => one.kernel === image.kernel && one.variant === image.variant);
      const forms = ORDER.map((form) => (form === image.form ? image : same.find((one) => one.form === form))).filter(Boolean);
      this.codes = forms.map((one) => new CodePane(one, this));
      this.source = new SourcePane(this);
      this.home = data.kernels[image.kernel].file;
      this.key = "";
      this.turn = 0;
    }

    get panes() {
      return [this.source, ...this.codes];
    }

    async load() {
      await Promise.all(this.codes.map((pane) => pane.load()));
      const loaded = this.codes.filter((pane) => pane.found);
      const files = new Set(loaded.flatMap((pane) => [...pane.found.hits.keys()].map((key) => Number(key.split(":")[0]))));
      const weights = new Map([...files].map((file) => [file, this.weight(file)]));
      const order = [...files].sort((a, b) => weights.get(b) - weights.get(a) || a - b);
      this.source.offer(order);
      if (order.length) await this.source.open(order.find((file) => data.files[file].code) ?? order[0]);
      return order.length > 0;
    }

    // The kernel's own file comes first, then those that most of the code is of.
    weight(file) {
      const count = [...this.counts(file).values()].reduce((sum, one) => sum + one, 0);
      return data.files[file].name === this.home ? Infinity : count;
    }

    // Instructions of each line of a file: those of the machine code where there is any.
    counts(file) {
      const last = this.codes.filter((pane) => pane.found).at(-1);
      const counts = new Map();
      for (const at of last?.found.at ?? []) {
        if (at < 0) continue;
        const [of, line] = last.found.places[at][0];
        if (of === file) counts.set(line, (counts.get(line) ?? 0) + 1);
      }
      return counts;
    }

    known(file, line) {
      return this.codes.some((pane) => pane.found?.hits.has(`${file}:${line}`));
    }

    choose(file, line, from, number) {
      const key = `${file}:${line}`;
      this.turn = key === this.key ? this.turn + 1 : 0;
      this.key = key;
      for (const pane of this.codes) pane.follow(key, this.turn, from, number);
      this.source.follow(file, line, from);
    }
  }

  // --- one image -------------------------------------------------------------------------------------------------------------------

  function pairs(rows) {
    return rows.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, text)]);
  }

  function fill(image, number) {
    const kernel = data.kernels[image.kernel];
    by("detail-title").textContent = image.id;
    by("signature").textContent = kernel.signature;
    by("doc").textContent = kernel.doc;
    by("warnings").replaceChildren(...image.warnings.map((text) => make("li", {}, text)));
    by("facts").replaceChildren(...pairs([...image.facts, ...kernel.facts]));
    for (const [id, other] of [["before", number - 1], ["after", number + 1]]) {
      by(id).hidden = !data.images[other];
      by(id).setAttribute("href", `#image-${other}`);
    }
  }

  async function open(number) {
    const image = data.images[number];
    fill(image, number);
    const view = new View(image);
    by("panes").replaceChildren(...view.panes.map((pane) => pane.node));
    by("panes-shown").replaceChildren(...view.panes.map((pane) => {
      const box = make("input", { type: "checkbox" });
      box.checked = true;
      box.addEventListener("change", () => {
        pane.node.hidden = !box.checked;
        for (const other of view.panes) if (other.lines.length) other.draw();
      });
      return make("label", {}, box, ` ${pane.title.textContent}`);
    }));
    const notes = view.codes.filter((pane) => pane.image.code && pane.image.note).map((pane) => `${pane.title.textContent}: ${pane.image.note}`);
    let traced = false;
    try {
      traced = await view.load();
    } catch (error) {
      notes.push(`the code cannot be shown: ${error}`);
      console.error(error);
    }
    view.source.node.hidden = !traced;
    by("panes-shown").firstChild.hidden = !traced;
    if (!traced && view.codes.some((pane) => pane.found)) {
      notes.push("no source lines: build with lineinfo = true in the profile (the debug profile has it) to see which line each instruction is of");
    }
    by("detail-note").textContent = notes.join("; ");
    by("detail-note").hidden = notes.length === 0;
    document.documentElement.dataset.ready = String(number);
  }

  function route() {
    const match = /^#image-(\d+)$/.exec(location.hash);
    const number = match && data.images[Number(match[1])] ? Number(match[1]) : -1;
    delete document.documentElement.dataset.ready;
    by("overview").hidden = number >= 0;
    by("detail").hidden = number < 0;
    scrollTo(0, 0);
    if (number >= 0) open(number);
  }
  addEventListener("hashchange", route);
  addEventListener("resize", () => { for (const node of document.querySelectorAll(".scroll")) node.dispatchEvent(new Event("scroll")); });
  route();
})();
