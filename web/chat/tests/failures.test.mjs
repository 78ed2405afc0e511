// What the page says when something is wrong, in Chromium against a real `talon serve`. usage: node --test tests/, with the environment
// of chat_page.mjs
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { answers, askToTheEnd, complaints, fake, open, page, said, shot } from "./chat_page.mjs";

const ended = (reason) => ({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });

describe("when something is wrong", () => {
  beforeEach(() => open());
  const refuse = (status, message, headers = {}, code = null) =>
    page.route("**/v1/chat/completions", (route) => route.fulfill({ status, headers, contentType: "application/json", body: JSON.stringify({ error: { message, code } }) }));

  test("a full queue is waited for", async () => {
    await refuse(429, "queue: expected room for this request, found none; try again later", { "Retry-After": "2" });
    await askToTheEnd("Anybody there?");
    assert.match(await page.getByRole("alert").textContent(), /The server is busy/);
    const again = page.getByRole("button", { name: /Try again/ });
    assert.equal(await again.isDisabled(), true);
    await shot("busy");
    await page.unroute("**/v1/chat/completions");
    await page.waitForFunction(() => !document.querySelector(".problem button").disabled);
    await again.click();
    await page.waitForSelector("article.assistant[aria-busy=false] .figures");
  });

  test("a server that ends says so", async () => {
    await refuse(503, "server: expected one that stays, found it ending");
    await askToTheEnd("Still there?");
    assert.match(await page.getByRole("alert").textContent(), /shutting down/);
  });

  test("a server that has no room for the moment does not end", async () => {
    await refuse(503, "server: expected more memory", {}, "out_of_memory");
    await askToTheEnd("Still there?");
    assert.match(await page.getByRole("alert").textContent(), /The server is busy.*expected more memory/);
  });

  test("a page that may not call is not asked for a key", async () => {
    await refuse(403, "origin: expected this server's own or the one of --cors, found https://elsewhere");
    await askToTheEnd("Let me in.");
    assert.match(await page.getByRole("alert").textContent(), /The server refused this.*--cors/);
    assert.equal(await page.getByRole("button", { name: "Enter the key" }).count(), 0);
  });

  test("a network that swallows everything is noticed", async () => {
    await page.route("**/ready", () => undefined);
    await page.reload();
    await page.locator(".banner").waitFor();
    assert.match(await page.locator(".banner").textContent(), /does not answer/);
  });

  test("a server that is gone is noticed, and noticed when it is back", async () => {
    await page.route("**/*", (route) => route.abort("connectionrefused"));
    await askToTheEnd("Hello?");
    assert.match(await page.getByRole("alert").textContent(), /does not answer/);
    await page.locator(".banner").waitFor();
    await shot("gone");
    await page.unroute("**/*");
    await page.locator(".banner").waitFor({ state: "hidden" });
  });

  test("a proxy that finds no server is not taken for one that ends", async () => {
    const refused = { status: 503, contentType: "text/html", body: "<h1>503 Service Unavailable</h1>" };
    for (const path of ["ready", "v1/chat/completions"]) await page.route(`**/${path}`, (route) => route.fulfill(refused));
    await askToTheEnd("Hello?");
    assert.match(await page.getByRole("alert").textContent(), /The server does not answer.*503/);
    await page.locator(".banner").waitFor({ timeout: 3000 });
    assert.match(await page.locator(".banner").textContent(), /does not answer/);
  });

  test("a conversation that a proxy finds too large is told in words", async () => {
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 413, contentType: "text/html", body: "<h1>413</h1>" }));
    await askToTheEnd("All of it.");
    assert.match(await page.getByRole("alert").textContent(), /The server refused this.*larger than it takes/);
  });

  test("a server that goes in the middle of an answer is noticed at once", async () => {
    await fake([said("Once upon a")[0]], { isCut: true });
    await page.route("**/ready", (route) => route.abort("connectionrefused"));
    await askToTheEnd("A story?");
    await page.locator(".banner").waitFor({ timeout: 3000 });
  });

  test("a list without models takes no choice away", async () => {
    await page.route("**/v1/models", (route) => route.fulfill({ json: {} }));
    await page.reload();
    await page.waitForLoadState("networkidle");
    const models = page.waitForResponse("**/v1/models");
    await page.getByRole("button", { name: /Settings/ }).click();
    await models;
    await page.waitForTimeout(150);
    assert.equal(await page.getByLabel("Model").locator("option").textContent(), "the first");
    assert.deepEqual(complaints, []);
  });

  test("a stream that breaks off keeps what came", async () => {
    await fake([said("Once upon a")[0]], { isCut: true });
    await askToTheEnd("A story?");
    assert.match(await answers().textContent(), /Once upon a/);
    assert.match(await page.getByRole("alert").textContent(), /broke off/);
    await shot("cut");
  });

  test("a key is asked for", async () => {
    await refuse(401, "api key: expected the server's, found none or another");
    await askToTheEnd("Let me in.");
    await page.getByRole("button", { name: "Enter the key" }).click();
    await page.getByLabel("Key of the server").fill("secret");
    await page.getByRole("button", { name: "Done" }).click();
    const request = page.waitForRequest("**/v1/chat/completions");
    await page.keyboard.press("r");
    assert.equal((await request).headers().authorization, "Bearer secret");
  });

  test("a key of any letters is sent as its bytes", async () => {
    await page.evaluate(() => localStorage.setItem("talon-preferences", JSON.stringify({ key: "ключ" })));
    await page.reload();
    await page.evaluate(() => {
      const real = window.fetch;
      window.fetch = (path, init) => {
        if (String(path).endsWith("/chat/completions")) window.sent = init.headers.Authorization;
        return real(path, init);
      };
    });
    await askToTheEnd("Let me in.");
    assert.equal(Buffer.from(await page.evaluate(() => window.sent), "latin1").toString(), "Bearer ключ");
    await page.locator(".figures").waitFor();
  });

  test("what answers is told once the key is there", async () => {
    const isLocked = (route) => (route.request().headers().authorization ? route.continue() : route.fulfill({ status: 401, json: {} }));
    for (const path of ["props", "v1/models"]) await page.route(`**/${path}`, isLocked);
    const props = page.waitForResponse("**/props");
    await page.reload();
    await props;
    await page.getByRole("button", { name: /Settings/ }).click();
    await page.getByLabel("Key of the server").fill("secret");
    await page.waitForFunction(() => document.querySelector(".thread .about").textContent.includes("guesses by"));
  });

  test("an answer without drafts that fails says why", async () => {
    await askToTheEnd("Anybody there?");
    await refuse(429, "queue: expected room for this request, found none; try again later");
    await page.getByRole("button", { name: "Without drafts" }).click();
    assert.match(await page.getByRole("alert").textContent(), /The server is busy.*queue: expected room/);
    await page.unroute("**/v1/chat/completions");
    const ending = [...said("Yes."), { choices: [], timings: { predicted_per_second: 100 }, talon: { ended: "cancelled" } }];
    await fake(ending);
    await page.getByRole("button", { name: "Without drafts" }).click();
    await page.getByRole("alert").getByText("Cut: the server was shut down.").waitFor();
    await page.unroute("**/v1/chat/completions");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".verdict").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  test("an answer that the server cut says so, and is not compared", async () => {
    await fake([said("Yes")[0], ended("length"), { choices: [], timings: { predicted_per_second: 100 }, talon: { ended: "cancelled" } }]);
    await askToTheEnd("Anybody there?");
    assert.match(await answers().textContent(), /Cut: the server was shut down\./);
    assert.equal(await page.getByRole("button", { name: "Without drafts" }).count(), 0);
  });

  test("a wrong setting is named", async () => {
    await page.evaluate(() => localStorage.setItem("talon-settings", JSON.stringify({ drafter: "nonsense" })));
    await page.reload();
    await askToTheEnd("Hm?");
    assert.match(await page.getByRole("alert").textContent(), /talon\.drafter/);
    await shot("refused");
  });
});
