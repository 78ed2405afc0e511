import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** dist/policy.txt: a Content-Security-Policy that allows what the page holds, its own server, and nothing else. */
function policyOfPage(): Plugin {
  return {
    name: "policy-of-page",
    closeBundle() {
      const page = readFileSync("dist/index.html", "utf8");
      const hashes = (pattern: RegExp) =>
        [...page.matchAll(pattern)].map(([, text]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`).join(" ");
      const rules = [
        "default-src 'none'",
        `script-src ${hashes(/<script[^>]*>([^]*?)<\/script>/g)}`,
        `style-src ${hashes(/<style[^>]*>([^]*?)<\/style>/g)}`,
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ];
      writeFileSync("dist/policy.txt", rules.join("; "));
    },
  };
}

// One HTML file with everything inside, which `talon serve` gives at / (src/serve/page).
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), policyOfPage()],
  build: { outDir: "dist", emptyOutDir: true, target: "es2022" },
  server: { proxy: Object.fromEntries(["/v1", "/props", "/ready", "/health"].map((path) => [path, "http://127.0.0.1:8080"])) },
});
