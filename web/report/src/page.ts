import type { Table } from "./data";
import { draw, type Chart } from "./chart";

/** The document, section by section. All texts are plain. */
export class Page {
  private readonly links = document.createElement("nav");
  private sections = 0;

  constructor(
    private readonly root: HTMLElement,
    title: string,
    subtitle: string,
  ) {
    document.title = title;
    this.element("h1", title);
    this.element("p", subtitle).className = "quiet";
    root.append(this.links);
  }

  section(heading: string, note = ""): void {
    const id = `s${++this.sections}`;
    this.element("h2", heading).id = id;
    const link = document.createElement("a");
    link.href = `#${id}`;
    link.textContent = heading;
    this.links.append(link);
    if (note) this.paragraph(note);
  }

  paragraph(text: string): void {
    this.element("p", text);
  }

  table(table: Table): void {
    const wide = document.createElement("div");
    wide.className = "wide";
    const element = document.createElement("table");
    if (table.note) {
      const note = Object.assign(document.createElement("p"), { textContent: table.note });
      element.createCaption().append(note);
    }
    const head = element.createTHead().insertRow();
    for (const column of table.columns) {
      head.append(Object.assign(document.createElement("th"), { textContent: column }));
    }
    const body = element.createTBody();
    for (const cells of table.rows) {
      const row = body.insertRow();
      for (const cell of cells) row.insertCell().textContent = cell;
    }
    wide.append(element);
    this.root.append(wide);
  }

  /** Tables that the command wrote under this heading; their notes stand above them. */
  tables(tables: Table[], heading: string): void {
    for (const table of tables.filter((each) => each.heading === heading)) this.table(table);
  }

  chart(title: string, chart: Chart): void {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    const place = document.createElement("div");
    figure.append(caption, place);
    this.root.append(figure);
    draw(place, chart);
  }

  private element(name: string, text: string): HTMLElement {
    const element = document.createElement(name);
    element.textContent = text;
    this.root.append(element);
    return element;
  }
}
