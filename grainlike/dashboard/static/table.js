// Tables: short ones with rows of any height, and long ones of which only the rows in sight are elements.

import { h } from "./dom.js";

const ROW = 32;
const SPARE = 8;
const narrow = window.matchMedia("(max-width: 720px)");

/**
 * A table of `columns`: `title`, `width` (of a grid), `cell(row)` (text or a node), `num`, and `wide` for those that a
 * phone leaves out. `tall` rows wrap their text. A long table is given its `scroller`, and calls `onend` near its end.
 */
export class Table {
  constructor({ label, columns, tall = false, scroller = null, onend = null }) {
    this.columns = columns;
    this.scroller = scroller;
    this.onend = onend;
    this.rows = [];
    this.total = null;
    this.first = -1;
    this.header = h("div", { class: "tr th", role: "row" });
    this.body = h("div", { class: "tb", role: "rowgroup" });
    this.node = h(
      "div",
      { class: `table${tall ? " tall" : ""}`, role: "table", "aria-label": label },
      h("div", { role: "rowgroup", class: "tr-group" }, this.header),
      this.body,
    );
    this.fit = () => this.#fit();
    this.look = () => this.#look();
    narrow.addEventListener("change", this.fit);
    scroller?.addEventListener("scroll", this.look, { passive: true });
    this.#fit();
  }

  close() {
    narrow.removeEventListener("change", this.fit);
    this.scroller?.removeEventListener("scroll", this.look);
  }

  /** Show these rows; `total` is how many there are, where that is known and more. */
  show(rows, total = null) {
    this.rows = rows;
    this.node.setAttribute("aria-rowcount", String(total ?? rows.length));
    if (this.scroller) this.body.style.height = `${rows.length * ROW}px`;
    this.#draw();
  }

  #fit() {
    this.chosen = this.columns.filter((column) => !(narrow.matches && column.wide));
    this.template = this.chosen.map((column) => (narrow.matches && column.narrow) || column.width).join(" ");
    this.header.style.gridTemplateColumns = this.template;
    this.header.replaceChildren(
      ...this.chosen.map((column) => h("div", { class: `td${column.num ? " num" : ""}`, role: "columnheader", text: column.title })),
    );
    this.#draw();
  }

  #look() {
    const [first] = this.#span();
    if (first !== this.first) this.#draw();
  }

  /** Return the first row to draw, and the one behind the last. */
  #span() {
    if (!this.scroller) return [0, this.rows.length];
    const top = this.scroller.scrollTop - (this.body.offsetTop - this.scroller.offsetTop);
    const first = Math.max(0, Math.floor(top / ROW / SPARE) * SPARE - SPARE);
    return [first, Math.min(this.rows.length, first + Math.ceil(this.scroller.clientHeight / ROW) + 3 * SPARE)];
  }

  #draw() {
    const [first, end] = this.#span();
    const held = this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.first = first;
    this.body.replaceChildren(...this.rows.slice(first, end).map((row, at) => this.#row(row, first + at)));
    if (held) this.body.querySelector(`a[href="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
    if (this.onend && end + 20 >= this.rows.length) this.onend();
  }

  #row(row, index) {
    const node = h(
      "div",
      { class: "tr", role: "row", "aria-rowindex": String(index + 1) },
      ...this.chosen.map((column) => h("div", { class: `td${column.num ? " num" : ""}${column.dim ? " dim" : ""}`, role: "cell" }, column.cell(row))),
    );
    node.style.gridTemplateColumns = this.template;
    if (this.scroller) node.style.transform = `translateY(${index * ROW}px)`;
    return node;
  }
}

/** Text that shows the whole of itself when pointed at. */
export const full = (text) => h("span", { title: text || null, text: text || "–" });

export const jobLink = (number, text = String(number)) => h("a", { href: `/job/${number}`, text });

export const empty = (title, text) => h("div", { class: "empty" }, h("strong", { text: title }), text);
