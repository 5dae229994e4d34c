// Draws only the rows of a long table that are on the screen, and a little around: two empty rows stand for those above and below.
// All rows are of one height. `draw(element, item, index)` fills a row; an element keeps its item for as long as that is drawn.

const AROUND = 6; // rows drawn beyond either edge, so that scrolling and tabbing find them there

export class RowWindow {
  #items = [];
  #drawn = new Map(); // key -> element
  #spare = [];
  #height = 0;
  #asked = false;

  /** `make()`: a new row; `keyOf(item)`: what is the same row from one time to the next. */
  constructor(body, { make, draw, keyOf }) {
    this.body = body;
    this.make = make;
    this.draw = draw;
    this.keyOf = keyOf;
    this.above = emptyRow();
    this.below = emptyRow();
    for (const event of ["scroll", "resize"]) addEventListener(event, () => this.#soon(), { passive: true });
  }

  show(items) {
    this.#items = items;
    put(this.body.closest("table"), "aria-rowcount", String(items.length + 1));
    this.render();
  }

  render() {
    if (!this.#height && this.#items.length) this.#measure();
    const [first, last] = this.#range();
    const wanted = this.#items.slice(first, last);
    const keys = new Set(wanted.map(this.keyOf));
    for (const [key, element] of this.#drawn) {
      if (!keys.has(key)) {
        this.#drawn.delete(key);
        this.#spare.push(element);
      }
    }
    const elements = wanted.map((item, index) => {
      const key = this.keyOf(item);
      const element = this.#drawn.get(key) ?? this.#spare.pop() ?? this.make();
      this.#drawn.set(key, element);
      put(element, "aria-rowindex", String(first + index + 2));
      this.draw(element, item);
      return element;
    });
    const above = gap(this.above, first * this.#height), below = gap(this.below, (this.#items.length - last) * this.#height);
    this.#place([...above, ...elements, ...below]);
  }

  // Only what moved is moved: an element that stays keeps focus and selection.
  #place(elements) {
    const staying = new Set(elements);
    for (const child of [...this.body.children]) if (!staying.has(child)) child.remove();
    let after = null;
    for (const element of elements) {
      const before = after ? after.nextSibling : this.body.firstChild;
      if (element !== before) this.body.insertBefore(element, before);
      after = element;
    }
  }

  #range() {
    const height = this.#height || 33;
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - AROUND);
    const last = Math.min(this.#items.length, Math.ceil((innerHeight - top) / height) + AROUND);
    return first < last ? [first, last] : [Math.max(0, Math.min(first, this.#items.length - 1)), this.#items.length];
  }

  #measure() {
    const element = this.make();
    this.body.append(element);
    this.draw(element, this.#items[0]);
    this.#height = element.getBoundingClientRect().height;
    element.remove();
    this.#spare.push(element);
  }

  #soon() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.render();
    });
  }
}

function put(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function emptyRow() {
  const row = document.createElement("tr");
  row.className = "row-gap";
  row.setAttribute("aria-hidden", "true");
  row.append(document.createElement("td"));
  row.firstChild.colSpan = 99;
  return row;
}

function gap(row, height) {
  const size = `${height}px`;
  if (row.firstChild.style.blockSize !== size) row.firstChild.style.blockSize = size;
  return height > 0 ? [row] : [];
}
