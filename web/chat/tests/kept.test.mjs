// What the page keeps and sends again, in Chromium against a real `talon serve`. usage: node --test tests/, with the environment of
// chat_page.mjs
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { answers, ask, askToTheEnd, complaints, done, fake, fakeSlowly, open, page, said } from "./chat_page.mjs";

const list = () => page.getByRole("navigation", { name: "Conversations" });
const titles = () => list().locator("li .open").allTextContents();
const isSaid = (text) => page.waitForFunction((wanted) => document.querySelector("article.assistant")?.textContent.includes(wanted), text);

async function askToDelete(title) {
  await list().locator("li", { hasText: title }).hover();
  await list().getByRole("button", { name: `Delete “${title}”` }).click();
}

describe("conversations", () => {
  beforeEach(() => open());

  test("one that is deleted while its answer comes is gone", async () => {
    const tell = await fakeSlowly();
    await ask("Name a river.");
    await tell([said("The Rhi")[0]]);
    await isSaid("The Rhi");
    await askToDelete("Name a river.");
    await list().getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("button", { name: "Ask (Enter)" }).waitFor();
    assert.deepEqual(await titles(), []);
    await page.reload();
    await page.waitForSelector(".thread .about:not(:empty), .messages article");
    assert.deepEqual(await titles(), []);
  });

  test("one whose deletion is taken back changes nothing, nor does an answer's end answer for its reader", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    await page.getByRole("button", { name: "New conversation" }).click();
    const tell = await fakeSlowly();
    await ask("Name a mountain.");
    await tell([said("Mont")[0]]);
    await isSaid("Mont");
    await askToDelete("Name a river.");
    await page.keyboard.press("Enter"); // Keep
    assert.equal(await page.evaluate(() => document.activeElement.title), "Delete “Name a river.”");
    assert.equal(await answers().getAttribute("aria-busy"), "true");
    await page.keyboard.press("Enter");
    await tell([...said(" Blanc."), done]);
    await page.waitForSelector("article.assistant[aria-busy=false]");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Keep");
    await list().getByRole("button", { name: "Delete", exact: true }).click();
    assert.deepEqual(await titles(), ["Name a mountain."]);
    assert.match(await answers().textContent(), /Mont Blanc\./);
  });

  test("what came of an answer is there after the page was left", async () => {
    const tell = await fakeSlowly();
    await ask("A story?");
    await tell([said("Once upon a")[0]]);
    await isSaid("Once upon a");
    await page.reload();
    await isSaid("Once upon a");
    assert.match(await answers().textContent(), /Not complete: it was stopped/);
  });

  test("one that others damaged does not keep the page from the rest", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    await page.evaluate(() => localStorage.setItem("talon-chat-odd", JSON.stringify({ id: "odd", title: "Odd", changed: Date.now() + 1e6, messages: [null] })));
    await page.reload();
    await isSaid("The Rhine.");
    assert.deepEqual(await titles(), ["Name a river."]);
    assert.deepEqual(complaints, []);
  });

  test("one has the title of its first question, also of one that was edited", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    await page.keyboard.press("ArrowUp");
    await page.getByRole("textbox", { name: "Edit the question" }).fill("Name a mountain.");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("article.user").textContent.includes("mountain"));
    assert.deepEqual(await titles(), ["Name a mountain."]);
  });
});

describe("questions", () => {
  beforeEach(() => open());
  const sent = () => page.waitForRequest("**/v1/chat/completions").then((request) => request.postDataJSON().messages);

  test("those that got no answer are not sent again", async () => {
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 500, contentType: "application/json", body: "{}" }));
    await askToTheEnd("Name a river.");
    await page.unroute("**/v1/chat/completions");
    await fake(said("Mont Blanc."));
    const second = sent();
    await askToTheEnd("Name a mountain.");
    const mountain = { role: "user", content: "Name a mountain." };
    assert.deepEqual(await second, [mountain]);
    const third = sent();
    await askToTheEnd("Another?");
    assert.deepEqual(await third, [mountain, { role: "assistant", content: "Mont Blanc." }, { role: "user", content: "Another?" }]);
  });

  test("are not for a model that another server had here", async () => {
    await page.evaluate(() => localStorage.setItem("talon-settings", JSON.stringify({ model: "another", maxTokens: "9" })));
    const models = page.waitForResponse("**/v1/models");
    await page.reload();
    await models;
    await page.waitForFunction(() => document.querySelector(".thread .about").textContent.startsWith("smollm2"));
    await askToTheEnd("Name a river.");
    await page.locator(".figures").waitFor();
  });
});

describe("a browser that keeps nothing", () => {
  test("has the page, and an answer, where it refuses storage", async () => {
    const refuse = () =>
      Object.defineProperty(window, "localStorage", {
        get: () => {
          throw new DOMException("denied", "SecurityError");
        },
      });
    await open({ prepare: refuse });
    await fake(said("Blue."));
    await askToTheEnd("Name a colour.");
    assert.match(await answers().textContent(), /Blue\./);
    assert.match(await list().textContent(), /forgotten with the page/);
    await askToDelete("Name a colour.");
    await list().getByRole("button", { name: "Delete", exact: true }).click();
    assert.deepEqual(await titles(), []);
    assert.deepEqual(complaints, []);
  });

  const round = { texts: ["Blue", "."], bytes: [4, 1], accepted: 1, draft_ms: 1, check_ms: 2 };
  const tinted = () => {
    const [first, last] = said("Blue.");
    first.choices[0].talon = { rounds: [round] };
    return [first, last];
  };

  test("keeps an answer without its tints where these have no room", async () => {
    await open();
    await page.evaluate(() => {
      const real = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) {
        if (value.includes('"rounds"')) throw new DOMException("full", "QuotaExceededError");
        real.call(this, key, value);
      };
    });
    await fake(tinted());
    await askToTheEnd("Name a colour.");
    assert.equal(await answers().locator(".token.kept").count(), 1);
    assert.equal(await list().getByText("forgotten with the page").isVisible(), false);
    await page.reload();
    await isSaid("Blue.");
    assert.equal(await answers().locator(".token").count(), 0);
    assert.deepEqual(complaints, []);
  });

  test("answers every question where it has no room", async () => {
    await open();
    await page.evaluate(() => {
      Storage.prototype.setItem = () => {
        throw new DOMException("full", "QuotaExceededError");
      };
    });
    await fake(tinted());
    await askToTheEnd("Name a colour.");
    await page.getByRole("button", { name: "New conversation" }).click();
    await askToTheEnd("Name another.");
    assert.match(await answers().textContent(), /Blue\./);
    assert.match(await list().textContent(), /forgotten with the page/);
    await list().getByRole("button", { name: "Name a colour.", exact: true }).click();
    assert.equal(await answers().locator(".token.kept").count(), 1, "the tints of what was never stored take no room");
    assert.deepEqual(complaints, []);
  });
});
