// Tables: short ones with rows of any height, and long ones of which only the rows in sight are elements.

import { h } from "./dom.js";

const ROW = 32;
const ROW_OF_TWO = 54;
const SPARE = 8;
const narrow = window.matchMedia("(max-width: 720px)");
const medium = window.matchMedia("(max-width: 1360px)");

/**
 * A table of `columns`: `title`, `width` (of a grid), `cell(row)` (text or a node), `num`, `wide` for those that have no
 * room on a phone, `extra` for those that have it on a large screen alone, and `below` for those that a phone shows on a
 * line of their own. `tall` rows wrap their text, and columns without room are lines below each. A long table is
 * given its `scroller`, and calls `onend` near its end; its rows are of one height, and it names the columns that it
 * leaves out, but for those that are `told` in another one then.
 */
export class Table {
  constructor({ label, columns, tall = false, scroller = null, onend = null }) {
    this.columns = columns;
    this.tall = tall;
    this.scroller = scroller;
    this.onend = onend;
    this.rows = [];
    this.total = null;
    this.first = -1;
    this.header = h("div", { class: "tr th", role: "row" });
    this.body = h("div", { class: "tb", role: "rowgroup" });
    this.table = h(
      "div",
      { class: `table${tall ? " tall" : ""}`, role: "table", "aria-label": label },
      h("div", { role: "rowgroup", class: "tr-group" }, this.header),
      this.body,
    );
    this.note = h("p", { class: "note left-out", hidden: true });
    this.node = h("div", {}, this.note, this.table);
    this.fit = () => this.#fit();
    this.look = () => this.#look();
    for (const query of [narrow, medium]) query.addEventListener("change", this.fit);
    scroller?.addEventListener("scroll", this.look, { passive: true });
    this.#fit();
  }

  close() {
    for (const query of [narrow, medium]) query.removeEventListener("change", this.fit);
    this.scroller?.removeEventListener("scroll", this.look);
  }

  /** Show these rows; `total` is how many there are, where that is known and more. */
  show(rows, total = null) {
    this.rows = rows;
    this.table.setAttribute("aria-rowcount", String(total ?? rows.length));
    if (this.scroller) this.body.style.height = `${rows.length * this.height}px`;
    this.#draw();
  }

  #fit() {
    const small = narrow.matches;
    const out = this.columns.filter((column) => (small && column.wide) || ((small || medium.matches) && column.extra));
    this.folded = this.tall ? out : [];
    this.chosen = [...this.columns.filter((column) => !out.includes(column)), ...this.folded];
    this.below = [...(small ? this.chosen.filter((column) => column.below) : []), ...this.folded];
    const untold = out.filter((column) => !column.told);
    this.note.hidden = this.tall || !untold.length;
    this.note.textContent = `Without room at this width: ${untold.map((column) => column.title).join(", ")}`;
    const heads = this.chosen.filter((column) => !this.below.includes(column));
    this.height = this.below.length ? ROW_OF_TWO : ROW;
    this.template = heads.map((column) => (small && column.narrow) || column.width).join(" ");
    this.header.style.gridTemplateColumns = this.template;
    this.header.replaceChildren(
      ...heads.map((column) => h("div", { class: `td${column.num ? " num" : ""}`, role: "columnheader", text: column.title })),
      ...this.below.map((column) => h("div", { class: "hidden", role: "columnheader", text: column.title })),
    );
    if (this.scroller) this.body.style.height = `${this.rows.length * this.height}px`;
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
    const first = Math.max(0, Math.floor(top / this.height / SPARE) * SPARE - SPARE);
    return [first, Math.min(this.rows.length, first + Math.ceil(this.scroller.clientHeight / this.height) + 3 * SPARE)];
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
      ...this.chosen.map((column) => h("div", { class: this.#looks(column), role: "cell" }, this.folded.includes(column) ? h("span", { class: "dim", text: `${column.title}: ` }) : null, column.cell(row))),
    );
    node.style.gridTemplateColumns = this.template;
    if (this.scroller) {
      node.style.height = `${this.height}px`;
      node.style.transform = `translateY(${index * this.height}px)`;
    }
    return node;
  }

  #looks(column) {
    if (this.below.includes(column)) return `td below${column.dim ? " dim" : ""}`;
    return `td${column.num ? " num" : ""}${column.dim ? " dim" : ""}`;
  }
}

/** Text that shows the whole of itself when pointed at. */
export const full = (text) => h("span", { title: text || null, text: text || "–" });

export const jobLink = (number, text = String(number)) => h("a", { href: `/job/${number}`, text });

export const empty = (title, text) => h("div", { class: "empty" }, h("strong", { text: title }), text);
