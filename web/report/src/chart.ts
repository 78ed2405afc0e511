import * as vega from "vega";
import { compile, type TopLevelSpec } from "vega-lite";

/** A Vega-Lite specification without data of the network, or a whole Vega one. */
export type Chart = { lite: Record<string, unknown> } | { vega: vega.Spec };

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const drawn: { place: HTMLElement; chart: Chart; view?: vega.View }[] = [];

/** Of lines, marks and so on; the first is for plain decoding where that is shown. */
export const kPalette = ["#8a94a0", "#2f7ed8", "#e0653a", "#2ca06b", "#9467bd", "#c9a227", "#17a2b8", "#d6538f"];

export function colors(): { text: string; line: string; accepted: string; node: string } {
  return dark.matches
    ? { text: "#c3ccd5", line: "#363e47", accepted: "#1f5c36", node: "#1d232a" }
    : { text: "#3b444d", line: "#e3e7eb", accepted: "#d7f0dd", node: "#ffffff" };
}

function config(): Record<string, unknown> {
  const { text, line } = colors();
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: line },
    axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal" },
    legend: { labelColor: text, titleColor: text, labelLimit: 420, orient: "bottom", columns: 2 },
    header: { labelColor: text, titleColor: text },
    title: { color: text },
    text: { color: text },
    rule: { color: text },
    range: { category: kPalette.slice(1) },
  };
}

function specOf(chart: Chart): vega.Spec {
  if ("vega" in chart) return chart.vega;
  const spec = { $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: 640, height: 300, ...chart.lite };
  return compile(spec as unknown as TopLevelSpec, { config: config() }).spec as vega.Spec;
}

function render(entry: (typeof drawn)[number]): void {
  entry.view?.finalize();
  entry.view = new vega.View(vega.parse(specOf(entry.chart)), {
    renderer: "svg",
    container: entry.place,
    hover: true,
    logLevel: vega.Error,
  });
  entry.view.runAsync().catch((error: unknown) => {
    entry.place.className = "error";
    entry.place.textContent = `This drawing failed: ${String(error)}`;
  });
}

/** Draws, and again when the reader's colours change. The wheel zooms, dragging moves. */
export function draw(place: HTMLElement, chart: Chart): void {
  const entry = { place, chart };
  drawn.push(entry);
  render(entry);
}
dark.addEventListener("change", () => drawn.forEach(render));

/** The selection that lets a plot of two quantities be moved and zoomed. */
export const kZoom = { name: "zoom", select: "interval", bind: "scales" };
