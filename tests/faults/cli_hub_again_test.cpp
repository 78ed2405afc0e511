#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "cli_hub.h"
#include "io/json.h"

// `talon pull OWNER/NAME` where it is not the first time: failures that pass, what is there already
// and the hub is not to be asked, other revisions of what is there.
namespace talon::test::cli_hub_again_test {
namespace {

using Names = std::vector<std::string>;
const std::string kModel(20000, 'x');
constexpr const char* kListing = "/api/models/a/b/revision/main?blobs=true";
constexpr const char* kFile = "/a/b/resolve/0123abcd/small.gguf";

Files small_repository() { return repository("a/b", {{"small.gguf", kModel}}); }

TEST(PullAgain, GoesOnByItselfWhereConnectionsBroke) {
  for (const std::string etag : {"\"one\"", "", "W/\"one\""}) {  // the checksum names the version
    const Folder models;
    const FileServer hub(
        {.etag = etag, .break_after = 8000, .breaks = 2, .files = small_repository()});
    const Outcome pulled = pull(hub, models, "a/b");
    expect_said(pulled, 0, "trying again in 1 s");
    EXPECT_EQ(pulled.notes.find("trying again in 2 s"), std::string::npos)
        << "more has come: " << pulled.notes;
    EXPECT_EQ(read_file(models.file("a/b/small.gguf")), kModel);
    EXPECT_EQ(hub.ranges(), (Names{"", "", "bytes=8000-", "bytes=16000-"})) << etag;
  }
}

/// A hub that refuses `target` so many times (-1: always) and then serves a/b. It asks for no wait.
FileServer::Behaviour refusing(const std::string& target, int status, int times) {
  return {.files = small_repository(),
          .statuses = {{target, status}},
          .refusals = times,
          .headers = {{"Retry-After", "0"}}};
}

TEST(PullAgain, WaitsForABusyHub) {
  for (const std::string target : {kListing, kFile}) {
    for (const int status : {429, 503}) {
      const Folder models;
      const FileServer hub(refusing(target, status, 3));
      const Outcome pulled = pull(hub, models, "a/b");
      expect_said(pulled, 0, "trying again in 0 s");
      EXPECT_EQ(read_file(models.file("a/b/small.gguf")), kModel);
      EXPECT_EQ(hub.targets().size(), 5u) << target;
    }
  }
}

TEST(PullAgain, AHubThatStaysBusyIsGivenUp) {
  const Folder models;
  const FileServer hub(refusing(kListing, 503, -1));
  expect_said(pull(hub, models, "a/b"), 1, "the hub answered 503");
  EXPECT_EQ(hub.targets(), Names(5, kListing));
}

TEST(PullAgain, ARefusalForGoodIsNotAskedFor) {
  for (const int status : {401, 403, 404}) {
    const Folder models;
    const FileServer hub(refusing(kListing, status, -1));
    EXPECT_EQ(pull(hub, models, "a/b").code, 1);
    EXPECT_EQ(hub.targets(), Names{kListing}) << status;
    const FileServer closed(refusing(kFile, status, -1));
    EXPECT_EQ(pull(closed, models, "a/b").code, 1);
    EXPECT_EQ(closed.targets(), (Names{kListing, kFile})) << status;
  }
}

TEST(PullAgain, AWaitIsInterruptedAtOnce) {
  const Folder models;
  const FileServer hub({.files = small_repository(),
                        .statuses = {{kListing, 503}},
                        .headers = {{"Retry-After", "200"}}});
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run_talon(Start{
      .arguments = {"pull", "a/b", "--models", models.path().string(), "--hub", hub.address()},
      .environment = {"HF_HUB_OFFLINE="},
      .interrupt_after = "trying again in 200 s"});
  expect_said(outcome, 130, "interrupted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(hub.targets().size(), 1u);
}

TEST(PullOffline, WhatIsWholeIsFoundWithoutTheHub) {
  const Folder models;
  const FileServer hub({.files = small_repository()});
  const Outcome first = pull(hub, models, "a/b");
  ASSERT_EQ(first.code, 0) << first.notes;
  const std::size_t asked = hub.targets().size();
  for (const std::string yes : {"1", "true", "ON", "Yes"}) {
    const Outcome again = pull(hub, models, "a/b", {}, {"HF_HUB_OFFLINE=" + yes});
    expect_said(again, 0, "the hub was not asked: $HF_HUB_OFFLINE is set");
    EXPECT_EQ(again.output, first.output);
  }
  const Outcome about = pull(hub, models, "a/b:small.gguf", {"--json"}, {"HF_HUB_OFFLINE=1"});
  const Json json = Json::parse(about.output, nullptr, false);
  EXPECT_EQ(json["already_here"], true) << about.notes;
  EXPECT_EQ(json["hub_asked"], false);
  EXPECT_EQ(hub.targets().size(), asked);
  EXPECT_EQ(pull(hub, models, "a/b", {}, {"HF_HUB_OFFLINE=0"}).code, 0);
  EXPECT_EQ(hub.targets().size(), asked + 1);
}

TEST(PullOffline, WhatIsNotWholeIsRefusedWithTheNameOfTheVariable) {
  const Folder models;
  const FileServer hub({.files = small_repository()});
  const auto refused = [&](const std::string& name) {
    const std::size_t asked = hub.targets().size();
    expect_said(pull(hub, models, name, {}, {"HF_HUB_OFFLINE=1"}), 1, "$HF_HUB_OFFLINE is set");
    EXPECT_EQ(hub.targets().size(), asked);
  };
  refused("a/b");
  EXPECT_EQ(models.names(), Names{});
  ASSERT_EQ(pull(hub, models, "a/b").code, 0);
  refused("a/b@v1");
  refused("a/b:other.gguf");
  models.write("a/b/small.gguf", std::string(kModel.size(), 'y'));
  refused("a/b");
  std::filesystem::remove(models.file("a/b/small.gguf"));
  refused("a/b");
}

TEST(PullOffline, WhatAnInterruptedPullLeftIsNotWhole) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"m-00001-of-00002.gguf", kModel},
                                                    {"m-00002-of-00002.gguf", kModel}}),
                        .statuses = {{"/a/b/resolve/0123abcd/m-00002-of-00002.gguf", 403}}});
  EXPECT_EQ(pull(hub, models, "a/b").code, 1);
  EXPECT_EQ(files_in(models.file("a/b")), (Files{{"m-00001-of-00002.gguf", kModel}}));
  expect_said(pull(hub, models, "a/b", {}, {"HF_HUB_OFFLINE=1"}), 1, "$HF_HUB_OFFLINE is set");
}

TEST(PullRevision, LiesBesideTheDefaultOneAndIsOpenedByItsName) {
  const Folder models;
  const Files target = files_in(TALON_TEST_DATA "/golden/stories260k/target");
  Files older = target;
  older["generation_config.json"] = R"({"eos_token_id": 2})";
  Files files = repository("a/b", target);
  files.merge(repository("a/b", older, {"v1.0", "4567cdef"}));
  files.merge(repository("a/b", older, {"refs%2Fpr%2F1", "89abcdef"}));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/b").output, models.file("a/b") + "\n");
  EXPECT_EQ(pull(hub, models, "a/b@v1.0").output, models.file("a/b@v1.0") + "\n");
  EXPECT_EQ(pull(hub, models, "a/b@refs/pr/1").output, models.file("a/b@refs@pr@1") + "\n");
  for (const std::string file : {"a/b@v1.0", "a/b@refs@pr@1"}) {
    EXPECT_EQ(read_file(models.file(file + "/generation_config.json")),
              older["generation_config.json"]);
  }
  EXPECT_NE(files_in(models.file("a/b"))["generation_config.json"],
            older["generation_config.json"]);
  for (const std::string name : {"a/b", "a/b@v1.0", "a/b@refs/pr/1"}) {
    const Json about = Json::parse(inspected(models, name), nullptr, false);
    EXPECT_EQ(about["config"]["hidden"], 64) << name;
  }
}

TEST(PullRevision, OfSeveralModelsOneIsNamedWithIt) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"m-Q4_0.gguf", kModel}, {"m-Q8_0.gguf", ""}},
                                            {"v1", "4567cdef"})});
  expect_said(pull(hub, models, "a/b@v1"), 1, "say a/b@v1:FILE with one of");
  EXPECT_EQ(pull(hub, models, "a/b@v1:Q4_0").output, models.file("a/b@v1/m-Q4_0.gguf") + "\n");
}

TEST(PullRevision, OneThatTheHubDoesNotHaveIsSaidOnce) {
  const Folder models;
  const FileServer hub({.files = small_repository(),
                        .headers = {{"X-Error-Code", "RevisionNotFound"},
                                    {"X-Error-Message", "Invalid rev id: v9"}}});
  const Outcome outcome = pull(hub, models, "a/b@v9");
  expect_said(outcome, 1, R"(the hub has no revision "v9" of a/b (404))");
  expect_said(outcome, 1, R"(the server says "Invalid rev id: v9")");
  EXPECT_EQ(hub.targets(), Names{"/api/models/a/b/revision/v9?blobs=true"});
  EXPECT_EQ(models.names(), Names{});
  const FileServer silent({.files = small_repository()});
  expect_said(pull(silent, models, "a/b@v9"), 1, "no such repository or revision (404)");
}

TEST(PullRevision, NamesThatCannotBeOneAreRefused) {
  const Folder models;
  const FileServer hub({.files = small_repository()});
  for (const std::string revision : {"", "v 1", "../../c", "/v1", "v1/", "v1@v2", "v1?x", ":f"}) {
    expect_said(pull(hub, models, "a/b@" + revision), 2, "expected as REVISION a branch, a tag");
  }
  expect_said(pull(hub, models, "a@v1/b"), 2, "expected OWNER/NAME[@REVISION][:FILE]");
  EXPECT_EQ(hub.targets(), Names{});
}

}  // namespace
}  // namespace talon::test::cli_hub_again_test
