import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// One HTML file with everything inside, which talon fills with data (src/report).
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: { outDir: "dist", emptyOutDir: true, target: "es2022" },
});
