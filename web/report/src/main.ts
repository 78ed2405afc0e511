import "./style.css";
import { showCalibration } from "./calibration";
import { showCost, showKernels } from "./cost";
import { showCurves } from "./curves";
import { readReport, type Report } from "./data";
import { showField } from "./field";
import { showLoad } from "./load";
import { Page } from "./page";
import { showPictures } from "./pictures";
import { showSpec } from "./spec";
import { showTree } from "./tree";

const kinds: Record<string, (page: Page, report: Report) => void> = {
  spec: showSpec,
  cost: showCost,
  kernels: showKernels,
  calibration: showCalibration,
  tree: showTree,
  curves: showCurves,
  load: showLoad,
  field: showField,
  pictures: showPictures,
};

function show(root: HTMLElement): void {
  const report = readReport(document.getElementById("talon-data")?.textContent ?? "null");
  const kind = kinds[report.kind];
  if (!kind) throw new Error(`expected one of ${Object.keys(kinds).join(", ")}, found "${report.kind}"`);
  const page = new Page(root, report.title, report.subtitle);
  report.notes.forEach((note) => page.paragraph(note));
  kind(page, report);
}

const root = document.getElementById("page") as HTMLElement;
try {
  show(root);
} catch (error) {
  root.append(Object.assign(document.createElement("p"), { className: "error", textContent: String(error) }));
}
