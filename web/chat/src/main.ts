import "./style/base.css";
import "./style/layout.css";
import "./style/messages.css";
import "./style/panels.css";
import "./style/studio.css";
import { App } from "./app";
import { showPreferences } from "./settings";

showPreferences();
new App(document.body).start();
