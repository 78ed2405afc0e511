#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "io/codec/zstd.h"
#include "io/sha256.h"
#include "io/test_files.h"

namespace talon::atomic_file_test {
namespace {

using namespace test;

std::string contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  {
    AtomicFile file(path);
    file.write(bytes_of("one "));
    file.write(bytes_of("two"));
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_EQ(contents(path), "one two");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseWhenGivenUp) {
  const TemporaryFolder folder;
  const auto path = folder.add("x", "old");
  {
    AtomicFile file(path);
    file.write(bytes_of("new"));
    EXPECT_EQ(files_in(folder), 2u);
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, WhatIsWrittenAsideCanBeRemovedAtOnce) {
  const TemporaryFolder folder;
  const auto whole = folder.path() / "whole", given_up = folder.path() / "given up";
  write_file(whole, bytes_of("x"));
  { const AtomicFile file(given_up); }
  {
    AtomicFile one(folder.path() / "one"), two(folder.path() / "two");
    one.write(bytes_of("1"));
    EXPECT_EQ(files_in(folder), 3u);
    remove_files_aside();
    EXPECT_EQ(files_in(folder), 1u);
    EXPECT_NE(message_of([&] { one.commit(); }), "no error");
  }
  for (int i = 0; i < 100; ++i) write_file(given_up, bytes_of("y"));
  remove_files_aside();
  EXPECT_EQ(contents(whole), "x");
  EXPECT_EQ(contents(given_up), "y");
}

/// More than there are places for: those that have none are files like all others.
TEST(AtomicFile, ManyCanBeWrittenAtOnce) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back(std::make_unique<AtomicFile>(folder.path() / std::to_string(i)));
  }
  for (const auto& file : files) file->commit();
  EXPECT_EQ(files_in(folder), 40u);
  files.clear();
  AtomicFile last(folder.path() / "last");
  remove_files_aside();
  EXPECT_EQ(files_in(folder), 40u);
}

TEST(AtomicFile, NeverTakesThePlaceOfADeviceOrPipe) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { write_file(pipe, bytes_of("x")); }),
            "write \"" + pipe.string() + "\": expected a file, found a device or pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, ReplacesTheFileThatALinkLeadsTo) {
  const TemporaryFolder folder;
  const auto path = folder.add("x", "old");
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink(path, link);
  write_file(link, bytes_of("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(contents(path), "new");
}

TEST(AtomicFile, SaysWhatFailedAndLeavesNoPartBehind) {
  const TemporaryFolder folder;
  const auto nowhere = folder.path() / "no" / "x";
  EXPECT_EQ(message_of([&] { write_file(nowhere, {}); }),
            "write \"" + nowhere.string() + "\": No such file or directory");

  // A limit on file sizes stands in for a full disk: write() fails part of the way.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto path = folder.path() / "x";
  const std::string message = message_of([&] { write_file(path, bytes_of(test_data(5000))); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "write \"" + path.string() + "\": File too large");
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(AtomicFile, CannotReplaceAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "x");
  EXPECT_NE(message_of([&] { write_file(folder.path() / "x", {}); }), "no error");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(sha256_of(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 pieces;
  pieces.update(bytes_of("a"));
  pieces.update(bytes_of("bc"));
  EXPECT_EQ(pieces.finish(), sha256_of(bytes_of("abc")));
}

TEST(Sha256, OfAFileEqualsThatOfItsBytes) {
  const TemporaryFolder folder;
  const std::string data = test_data((1 << 20) + 17);
  EXPECT_EQ(sha256_of_file(folder.add("x", data)), sha256_of(bytes_of(data)));
  EXPECT_NE(message_of([&] { sha256_of_file(folder.path() / "none"); }).find("No such file"),
            std::string::npos);
}

TEST(Sha256, OfAFileSaysHowFarItIsAndCanBeEnded) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.add("x", test_data((1 << 20) + 17));
  std::vector<std::uint64_t> read;
  sha256_of_file(file, [&](std::uint64_t bytes) { read.push_back(bytes); });
  EXPECT_EQ(read, (std::vector<std::uint64_t>{1 << 20, (1 << 20) + 17}));
  EXPECT_EQ(message_of([&] { sha256_of_file(file, [](std::uint64_t) { fail("ended"); }); }),
            "ended");
}

TEST(Zstd, ReadsGoldenDataAndRefusesHalfOfIt) {
  const std::filesystem::path file = TALON_TEST_DATA "/golden/stories260k/numerics.json.zst";
  const std::string text = read_zstd(file);
  EXPECT_TRUE(Json::parse(text).contains("cases"));
  EXPECT_NE(message_of([&] { read_zstd(file, 1000); }).find("expected at most 1000 bytes"),
            std::string::npos);
  const TemporaryFolder folder;
  const std::string packed = contents(file);
  const std::string half = packed.substr(0, packed.size() / 2);
  EXPECT_NE(message_of([&] { read_zstd(folder.add("half", half)); }).find("cut off"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_zstd(folder.add("junk", "hello world")); }).find("decompress"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::atomic_file_test
