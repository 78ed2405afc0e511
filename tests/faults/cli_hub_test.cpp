#include "cli_hub.h"

#include <gtest/gtest.h>

#include <chrono>

#include "io/json.h"
#include "io/sha256.h"

// `talon pull OWNER/NAME` from a hub that the test starts.
namespace talon::test::cli_hub_test {
namespace {

const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";
const std::string kModel(20000, 'x');
constexpr const char* kCommit = "0123abcd";
constexpr const char* kListing = "/api/models/a/b/revision/main?blobs=true";
const std::string kFile = std::string("/a/b/resolve/") + kCommit + "/small.gguf";

Files small_target() {
  Files files = files_in(kGolden + "target");
  files["README.md"] = "words";
  files["onnx/model.onnx"] = "another format";
  return files;
}

Json inspect(const Folder& models, const std::string& what,
             const std::vector<std::string>& more = {}) {
  return Json::parse(inspected(models, what, more), nullptr, false);
}

TEST(PullHub, FetchesAFolderWhoseNameStandsForIt) {
  const Folder models;
  const FileServer hub({.files = repository("someone/small", small_target())});
  const Outcome pulled = pull(hub, models, "someone/small");
  EXPECT_EQ(pulled.code, 0) << pulled.notes;
  EXPECT_EQ(pulled.output, models.file("someone/small") + "\n");
  EXPECT_NE(pulled.notes.find("drafts for it with suffix"), std::string::npos) << pulled.notes;
  EXPECT_FALSE(std::filesystem::exists(models.file("someone/small/README.md")));
  EXPECT_EQ(inspect(models, "someone/small")["config"]["hidden"], 64);

  const std::size_t asked = hub.targets().size();
  const Outcome again = pull(hub, models, "someone/small", {"--json"});
  EXPECT_EQ(Json::parse(again.output)["already_here"], true);
  EXPECT_EQ(hub.targets().size(), asked + 1) << "what is whole is not fetched again";
}

TEST(PullHub, KnowsItsOwnFileHoweverTheHubDescribesIt) {
  std::string sum = sha256_of(std::as_bytes(std::span(kModel)));
  for (char& c : sum) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Json& about : {Json{{"lfs", {{"sha256", sum}, {"size", kModel.size()}}}},
                            Json{{"lfs", {{"oid", sum}}}}, Json::object()}) {
    Json entry = {{"rfilename", "small.gguf"}};
    entry.update(about);
    Files files = repository("a/b", {{"small.gguf", kModel}});
    files[kListing] = Json{{"sha", kCommit}, {"siblings", Json::array({entry})}}.dump();
    const Folder models;
    const FileServer hub({.files = files});
    EXPECT_EQ(pull(hub, models, "a/b").code, 0) << about;
    const Outcome again = pull(hub, models, "a/b", {"--json"});
    EXPECT_EQ(again.code, 0) << about << again.notes;
    EXPECT_NE(again.output.find(R"("already_here":true)"), std::string::npos) << again.output;
  }
}

TEST(PullHub, AHeadIsPairedWithTheModelThatItIsFor) {
  const Folder models;
  auto files = repository("a/small", small_target());
  files.merge(repository("b/head", files_in(kGolden + "eagle3_head")));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/small").code, 0);
  expect_said(pull(hub, models, "b/head"), 0, "--for MODEL pairs it");
  EXPECT_EQ(inspect(models, "a/small")["drafts"]["auto"], "suffix");
  const std::string other = TALON_TEST_DATA "/../../models/stories15m-eagle2";
  expect_said(pull(hub, models, "b/head", {"--for", other}), 1, "288");
  expect_said(pull(hub, models, "b/head", {"--for", "a/small"}), 0, "for a/small");
  EXPECT_EQ(inspect(models, "a/small")["drafts"]["auto"], "eagle3+suffix");
  EXPECT_EQ(inspect(models, "b/head", {"--for", "a/small"})["fit"]["paired"], true);
}

TEST(PullHub, AHeadThatDoesNotFitIsNotPaired) {
  const Folder models;
  auto files = repository("a/small", small_target());
  files.merge(repository("b/head", files_in(TALON_TEST_DATA "/../../models/stories15m-eagle2/")));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/small").code, 0);
  expect_said(pull(hub, models, "b/head", {"--for", "a/small"}), 1, "288");
  EXPECT_FALSE(std::filesystem::exists(models.file("b/head/talon.json")));
  const Json fit = inspect(models, "b/head", {"--for", "a/small"})["fit"];
  EXPECT_EQ(fit["fits"], false);
  EXPECT_NE(fit["problem"].get<std::string>().find("288"), std::string::npos);
}

TEST(PullHub, OfSeveralModelsOneIsToBeNamed) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"q4.gguf", kModel}, {"q8.gguf", kModel}})});
  expect_said(pull(hub, models, "a/b"), 1, "a/b:FILE with one of q4.gguf, q8.gguf");
  EXPECT_EQ(pull(hub, models, "a/b:q8.gguf").code, 0);
  EXPECT_TRUE(std::filesystem::exists(models.file("a/b/q8.gguf")));
  EXPECT_FALSE(std::filesystem::exists(models.file("a/b/q4.gguf")));
  expect_said(pull(hub, models, "a/b:q5.gguf"), 1, "q5.gguf");
}

TEST(PullHub, AllPartsOfAModelAreFetched) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"big-00001-of-00002.gguf", "one"},
                                                    {"big-00002-of-00002.gguf", "two"}})});
  EXPECT_EQ(pull(hub, models, "a/b").code, 0);
  EXPECT_EQ(read_file(models.file("a/b/big-00002-of-00002.gguf")), "two");
}

/// A GGUF file with what `talon convert` makes of its arguments.
std::string converted(std::vector<std::string> arguments) {
  const Folder folder;
  arguments.insert(arguments.begin(), "convert");
  arguments.insert(arguments.end(), {"-o", folder.file("m.gguf")});
  const Outcome outcome = run_talon(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  return read_file(folder.file("m.gguf"));
}

TEST(PullHub, WhatItFetchedIsOpenedByTheSameName) {
  const Folder models;
  const std::string model = converted({small_model()});
  auto files = repository("a/below", {{"Q4/m.gguf", model}});
  files.merge(repository("a/eagle", {{"Eagle-7B-q4.gguf", model}}));
  files.merge(repository("a/tags", {{"m-Q4_K_M.gguf", model}, {"m-Q8_0.gguf", kModel}}));
  const FileServer hub({.files = files});
  for (const std::string name : {"a/below", "a/eagle", "a/tags:q4_k_m"}) {
    const Outcome pulled = pull(hub, models, name);
    expect_said(pulled, 0, "drafts for it with suffix");
    EXPECT_EQ(inspect(models, name)["path"].get<std::string>() + "\n", pulled.output);
  }
}

TEST(PullHub, OfAFolderAllThatIsReadIsFetched) {
  const Folder models;
  Files whole = small_target();
  whole["chat_template.json"] = "{}";
  whole["additional_chat_templates/tool_use.jinja"] = "tools";
  whole["pytorch_model.bin"] = "the same weights once more";
  Files head = files_in(kGolden + "eagle3_head");
  head.erase("model.safetensors");
  const std::string index = R"({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})";
  auto files = repository("a/whole", whole);
  files.merge(repository("a/head", head));
  files.merge(repository("a/parts", {{"config.json", "{}"},
                                     {"pytorch_model-00001-of-00001.bin", kModel},
                                     {"pytorch_model.bin.index.json", index}}));
  files.merge(repository("a/medusa", {{"config.json", "{}"}, {"medusa_lm_head.pt", kModel}}));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/whole").code, 0);
  EXPECT_EQ(read_file(models.file("a/whole/chat_template.json")), "{}");
  EXPECT_EQ(read_file(models.file("a/whole/additional_chat_templates/tool_use.jinja")), "tools");
  EXPECT_FALSE(std::filesystem::exists(models.file("a/whole/pytorch_model.bin")));
  expect_said(pull(hub, models, "a/head", {"--for", "a/whole"}), 0, "for a/whole");
  EXPECT_EQ(pull(hub, models, "a/parts").code, 0);
  EXPECT_EQ(files_in(models.file("a/parts")).size(), 3u);
  EXPECT_EQ(pull(hub, models, "a/medusa").code, 0);
  EXPECT_EQ(read_file(models.file("a/medusa/medusa_lm_head.pt")), kModel);
}

TEST(PullHub, WithoutItsConfigurationAFolderIsNoModel) {
  const Folder models;
  Files files = small_target();
  files.erase("config.json");
  files["tokenizer_config.json"] = files["generation_config.json"] = "{}";
  const FileServer hub({.files = repository("a/b", files)});
  expect_said(pull(hub, models, "a/b"), 1, "config.json with safetensors");
  EXPECT_EQ(models.names(), std::vector<std::string>{});
}

TEST(PullHub, AHeadInASubfolderIsPairedToo) {
  const Folder models;
  const std::string head = converted({kGolden + "eagle3_head", "-m", kGolden + "target"});
  auto files = repository("a/small", small_target());
  files.merge(repository("b/head", {{"Q8/eagle3.gguf", head}}));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/small").code, 0);
  expect_said(pull(hub, models, "b/head", {"--for", "a/small"}), 0, "for a/small");
  EXPECT_EQ(inspect(models, "a/small")["drafts"]["auto"], "eagle3+suffix");
  EXPECT_EQ(inspect(models, "b/head", {"--for", "a/small"})["fit"]["paired"], true);
}

TEST(PullHub, AnyPartStandsForItsModel) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"big-00001-of-00002.gguf", kModel},
                                                    {"big-00002-of-00002.gguf", kModel}})});
  const std::string name = "a/b:big-00002-of-00002.gguf";
  EXPECT_EQ(pull(hub, models, name).output, models.file("a/b/big-00001-of-00002.gguf") + "\n");
  expect_said(run_talon({"inspect", name, "--models", models.path().string()}), 1,
              "big-00001-of-00002.gguf");
}

TEST(PullHub, BeginsAnewWhereWhatHadComeHasAnotherChecksum) {
  const Folder models;
  std::filesystem::create_directories(models.file("a/b"));
  models.write("a/b/small.gguf.part", std::string(5000, 'y'));
  models.write("a/b/small.gguf.part.etag", "sha256:" + std::string(64, 'a') + "\n");
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}})});
  EXPECT_EQ(pull(hub, models, "a/b").code, 0);
  EXPECT_EQ(read_file(models.file("a/b/small.gguf")), kModel);
  EXPECT_EQ(hub.ranges().back(), "");
}

TEST(PullHub, WhatCameWholeIsCheckedAndNotAskedForAgain) {
  const Folder models;
  std::filesystem::create_directories(models.file("a/b"));
  const std::string sum = sha256_of(std::as_bytes(std::span(kModel)));
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}})});
  for (const bool is_right : {false, true}) {
    std::string model = kModel;
    if (!is_right) model[1000] ^= 1;
    models.write("a/b/small.gguf.part", model);
    models.write("a/b/small.gguf.part.etag", "sha256:" + sum + "\n");
    const Outcome pulled = pull(hub, models, "a/b");
    EXPECT_EQ(pulled.code, is_right ? 0 : 1) << pulled.notes;
    EXPECT_EQ(hub.targets().back(), kListing);
  }
  EXPECT_EQ(files_in(models.file("a/b")), (Files{{"small.gguf", kModel}}));
}

/// `pull a/b` interrupted while the hub does not answer what is asked for at `silent_at`.
Outcome pull_interrupted(const Folder& models, const std::string& silent_at) {
  const FileServer hub(
      {.files = repository("a/b", {{"small.gguf", kModel}}), .silent_at = silent_at});
  return run_talon(Start{
      .arguments = {"pull", "a/b", "--models", models.path().string(), "--hub", hub.address()},
      .interrupt_when = [&] { return hub.was_silent(); }});
}

TEST(PullHub, IsInterruptedWhileTheHubIsSilent) {
  const Folder models;
  const auto begin = std::chrono::steady_clock::now();
  expect_said(pull_interrupted(models, kListing), 130, "interrupted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
      << "it waited until the hub was silent for too long";
  EXPECT_EQ(models.names(), std::vector<std::string>{});
  expect_said(pull_interrupted(models, kFile), 130, "interrupted");
  EXPECT_TRUE(std::filesystem::is_empty(models.file("a/b"))) << "what is empty is not kept";
}

TEST(PullHub, AWrongChecksumLeavesNothing) {
  const Folder models;
  auto files = repository("a/b", {{"small.gguf", kModel}});
  files[kFile][1000] ^= 1;
  const FileServer hub({.files = files});
  expect_said(pull(hub, models, "a/b"), 1, "expected SHA-256");
  EXPECT_FALSE(std::filesystem::exists(models.file("a/b/small.gguf")));
}

TEST(PullHub, ATokenOpensWhatIsClosed) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}}), .token = "secret"});
  expect_said(pull(hub, models, "a/b"), 1, "HF_TOKEN");
  EXPECT_EQ(pull(hub, models, "a/b", {}, {"HF_TOKEN=secret"}).code, 0);
}

TEST(PullHub, ATokenIsFoundWhereTheHubsOwnClientFindsIt) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}}), .token = "secret"});
  const std::string kept = models.write("kept", " secret \n");
  const std::string home = "HOME=" + models.path().string();
  using Variables = std::vector<std::string>;
  for (const Variables& variables : {Variables{"HF_TOKEN=\tsecret\r\n"},
                                     Variables{"HF_TOKEN=\n", "HUGGING_FACE_HUB_TOKEN=secret"},
                                     Variables{"HF_TOKEN=", "HF_TOKEN_PATH=" + kept},
                                     Variables{"HF_TOKEN=", home, "HF_TOKEN_PATH=~/kept"}}) {
    const Outcome pulled = pull(hub, models, "a/b", {}, variables);
    EXPECT_EQ(pulled.code, 0) << variables.back() << pulled.notes;
  }
}

TEST(PullHub, ATokenIsForTheHubAloneAndNotForWhereItSends) {
  const Folder models;
  const FileServer store({.body = kModel});  // it refuses those with a token
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}}),
                        .token = "secret",
                        .statuses = {{kFile, 302}},
                        .redirects_to = store.url()});
  const Outcome pulled = pull(hub, models, "a/b", {}, {"HF_TOKEN=secret"});
  EXPECT_EQ(pulled.code, 0) << pulled.notes;
}

TEST(PullHub, AnAddressWithoutItsProtocolIsRefused) {
  const Folder models;
  Start start{.arguments = {"pull", "a/b", "--models", models.path().string()},
              .environment = {"HF_ENDPOINT=127.0.0.1:1"}};
  expect_said(run_talon(start), 2, "$HF_ENDPOINT: expected an address with https:// or http://");
  start.arguments.insert(start.arguments.end(), {"--hub", "file:///x"});
  expect_said(run_talon(start), 2, "--hub: expected an address with https:// or http://");
}

TEST(PullHub, ARefusedFileOfAnOpenListingSaysWhatToDo) {
  for (const int status : {401, 403, 404}) {
    const Folder models;
    const FileServer hub(
        {.files = repository("a/b", {{"small.gguf", kModel}}), .statuses = {{kFile, status}}});
    const Outcome outcome = pull(hub, models, "a/b");
    for (const std::string& part :
         {std::string("small.gguf: the hub refused"), std::to_string(status),
          std::string("$HF_TOKEN"), "conditions, if it has some, on " + hub.address() + "/a/b"}) {
      expect_said(outcome, 1, part);
    }
  }
}

/// What `pull a/b` ends with where the hub refuses `target` with this header.
Outcome pull_refused(const std::string& target, int status, const std::string& name,
                     const std::string& value) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"small.gguf", kModel}}),
                        .statuses = {{target, status}},
                        .headers = {{name, value}}});
  return pull(hub, models, "a/b");
}

TEST(PullHub, ARefusalIsToldInTheHubsOwnWordsAndWithTheTimeToWait) {
  const std::string why =
      "Access to model a/b is restricted and you are not in the authorized list. Visit "
      "https://huggingface.co/a/b to ask for access.";
  for (const std::string& target : {std::string(kListing), kFile}) {
    expect_said(pull_refused(target, 403, "X-Error-Message", why), 1, '"' + why + '"');
    const Outcome busy = pull_refused(target, 429, "Retry-After", "3600");  // longer than it waits
    expect_said(busy, 1, "429");
    expect_said(busy, 1, "ask again in 3600 s");
  }
}

TEST(PullHub, NamesThatLeaveTheFolderAreRefused) {
  const Folder models;
  const FileServer hub({.files = repository("a/b", {{"../../evil.gguf", kModel}})});
  expect_said(pull(hub, models, "a/b"), 1, "plain names");
  EXPECT_EQ(pull(hub, models, "../b").code, 2);
  EXPECT_EQ(pull(hub, models, "a/b/c").code, 2);
  EXPECT_EQ(pull(hub, models, "a/b:../c").code, 2);
  EXPECT_EQ(models.names(), std::vector<std::string>{});
}

TEST(PullHub, UnusualNamesOfOtherFilesDoNotMatter) {
  const Folder models;
  auto files = repository("a/b", {{"small.gguf", kModel}, {"my chart (1).png", "a picture"}});
  files.merge(repository("a/several", {{"m.gguf", kModel}, {"m\x1b[2J@2.gguf", kModel}}));
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/b").code, 0);
  EXPECT_EQ(files_in(models.file("a/b")).size(), 1u);
  expect_said(pull(hub, models, "a/several"), 1, R"(one of "m\x1b[2J@2.gguf", m.gguf)");
}

TEST(PullHub, AFileThatIsListedTwiceIsOne) {
  const Folder models;
  Files files = repository("a/b", {{"m.gguf", kModel}});
  Json listing = Json::parse(files[kListing]);
  listing["siblings"].push_back(listing["siblings"][0]);
  files[kListing] = listing.dump();
  const FileServer hub({.files = files});
  EXPECT_EQ(pull(hub, models, "a/b").output, models.file("a/b/m.gguf") + "\n");
}

TEST(PullHub, WhatDoesNotFitTheDiskIsNotBegun) {
  const Folder models;
  Files files = repository("a/b", {{"small.gguf", kModel}});
  Json listing = Json::parse(files[kListing]);
  listing["siblings"][0]["size"] = std::uint64_t{1} << 60;
  files[kListing] = listing.dump();
  const FileServer hub({.files = files});
  expect_said(pull(hub, models, "a/b"), 1, "No space left on device");
  EXPECT_EQ(hub.targets().size(), 1u);
  EXPECT_EQ(models.names(), std::vector<std::string>{});
}

TEST(PullHub, WhatIsNoListingIsRefused) {
  const Folder models;
  for (const char* answer :
       {"{", "[]", "{}", R"({"sha": "x", "siblings": 3})", R"({"sha": "../x", "siblings": []})",
        R"({"sha": "x", "siblings": [{"rfilename": 1}]})"}) {
    const FileServer hub({.files = {{kListing, answer}}});
    EXPECT_EQ(pull(hub, models, "a/b").code, 1) << answer;
  }
  const FileServer large({.files = {{kListing, std::string((16 << 20) + 1, ' ')}}});
  expect_said(pull(large, models, "a/b"), 1, "expected a listing of at most 16777216 bytes");
  const FileServer loop({.status = 302, .redirects_to = "/once/more"});
  expect_said(pull(loop, models, "a/b"), 1, "expected an answer within 20 redirections");
  const FileServer hub({.files = {{"/other", ""}}});
  expect_said(pull(hub, models, "a/b"), 1, "no such repository");
}

}  // namespace
}  // namespace talon::test::cli_hub_test
