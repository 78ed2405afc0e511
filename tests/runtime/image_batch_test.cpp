#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>

#include "../faults/cli_process.h"
#include "io/atomic_file.h"
#include "io/codec/zstd.h"
#include "io/formats/write_safetensors.h"
#include "io/json.h"

// `talon image --batch` with the tiny model of tests/data/golden/images.
namespace talon::test::image_batch_test {
namespace {

namespace fs = std::filesystem;

class ImageBatch : public testing::Test {
 protected:
  ImageBatch() {
    const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
    for (const char* name : {"words/config.json", "words/words.json"})
      model_.write(fs::path(name).filename(), read_file(golden / name));
    model_.write("model.safetensors", read_zstd(golden / "words/model.safetensors.zst"));
    model_.write("vq.safetensors", read_zstd(golden / "words/vq.safetensors.zst"));
  }

  std::string folder() const { return out_.file("pictures"); }
  std::vector<std::string> arguments(const std::string& lines,
                                     std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"image",
                                    "-m",
                                    model_.path().string(),
                                    "-o",
                                    folder(),
                                    "--batch",
                                    model_.write("lines.jsonl", lines)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome batch(const std::string& lines, std::vector<std::string> more = {}) const {
    return run_talon(arguments(lines, std::move(more)));
  }
  std::vector<Json> drawn(const std::string& lines, std::vector<std::string> more = {}) const {
    more.push_back("--json");
    const Outcome outcome = batch(lines, std::move(more));
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    std::istringstream text(outcome.output);
    std::vector<Json> all;
    for (std::string line; std::getline(text, line);) all.push_back(Json::parse(line));
    return all;
  }
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  Folder model_, out_;
};

const std::string kLines =
    "{\"prompt\": \"red cat flat\", \"seed\": 5, \"out\": \"cat.png\"}\n"
    "\n"
    "{\"prompt\": \"moon round\", \"guidance\": 6}\n"
    "{\"prompt\": \"red cat flat\", \"source\": \"flat\", \"guidance_tokens\": 3}\n";

TEST_F(ImageBatch, DrawsWhatItsLinesAskFor) {
  const std::vector<Json> all = drawn(kLines, {"--seed", "40", "--guidance", "3"});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(there(), (std::vector<std::string>{"00003.png", "00004.png", "cat.png"}));
  const auto of_line = [&](int number) {
    return *std::ranges::find_if(all,
                                 [&](const Json& one) { return one.value("line", 0) == number; });
  };
  EXPECT_EQ(of_line(1)["seed"], 5);
  EXPECT_EQ(of_line(1)["guidance"], 3);
  EXPECT_EQ(of_line(3)["seed"], 41);
  EXPECT_EQ(of_line(3)["guidance"], 6);
  EXPECT_EQ(of_line(4)["seed"], 42);
  EXPECT_EQ(of_line(3)["guidance_tokens"], 0);
  EXPECT_EQ(of_line(4)["guidance_tokens"], 3);
  EXPECT_EQ(all.back()["summary"]["pictures"], 3);
  const Outcome alone =
      run_talon({"image", "-m", model_.path().string(), "-o", out_.file("alone.png"), "-p",
                 "moon round", "--seed", "41", "--guidance", "6", "-d", "none", "--json"});
  EXPECT_EQ(Json::parse(alone.output)["images"][0]["tokens"], of_line(3)["tokens"]);
}

TEST_F(ImageBatch, WhatIsNullIsNotThere) {
  const std::vector<Json> all = drawn(
      "{\"prompt\": \"red cat flat\", \"class\": null, \"caption_features\": null, "
      "\"seed\": null, \"guidance\": null, \"out\": null}\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["prompt"], "red cat flat");
  EXPECT_EQ(there(), std::vector<std::string>{"00001.png"});
}

TEST_F(ImageBatch, GoesOnWithWhatIsLeft) {
  drawn(kLines);
  const std::string cat = read_file(folder() + "/cat.png");
  fs::remove(folder() + "/00003.png");
  const auto written = fs::last_write_time(folder() + "/cat.png");
  const std::vector<Json> again = drawn(kLines, {"-d", "grid"});
  ASSERT_EQ(again.size(), 2u) << "another drafter draws the same pictures";
  EXPECT_EQ(again[0]["line"], 3);
  EXPECT_EQ(again[1]["summary"]["there"], 2);
  EXPECT_EQ(fs::last_write_time(folder() + "/cat.png"), written) << "not drawn again";
  const Outcome done = batch(kLines);
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.output, "");
  EXPECT_NE(done.notes.find("3 of 3 pictures are there"), std::string::npos) << done.notes;
  const Outcome other = batch("{\"prompt\": \"tree flat\", \"seed\": 5, \"out\": \"cat.png\"}\n");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.notes.find("line 1: "), std::string::npos) << other.notes;
  EXPECT_NE(other.notes.find("prompt red cat flat, not tree flat"), std::string::npos)
      << other.notes;
  EXPECT_EQ(read_file(folder() + "/cat.png"), cat);
}

/// Of a tensor of a safetensors file, in float32.
void change_first_value(const std::string& file, const std::string& tensor) {
  std::string bytes = read_file(file);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json found = Json::parse(bytes.substr(sizeof header, header))[tensor];
  const auto first = found["data_offsets"][0].get<std::size_t>();
  bytes[sizeof header + header + first + 2] ^= 1;
  write_file(file, std::as_bytes(std::span(bytes)));
}

TEST_F(ImageBatch, TakesNoOtherPictureForTheOneAsked) {
  drawn(kLines);
  const auto refusal = [&](std::vector<std::string> more) {
    const Outcome outcome = batch(kLines, std::move(more));
    EXPECT_EQ(outcome.code, 2) << outcome.notes;
    EXPECT_NE(outcome.notes.find("lines.jsonl line 1: "), std::string::npos) << outcome.notes;
    return outcome.notes;
  };
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(refusal({"--weights", "int4"}), "(weights stored, not int4)");
  expect(refusal({"--activations", "16"}), "(activations mixed, not 16)");
  expect(refusal({"--kv", "f32"}), "(kv bf16, not f32)");
  expect(refusal({"--backend", "reference"}), "not none");
  const Outcome same = run_talon({"image", "-m", model_.path().string() + "/", "-o", folder(),
                                  "--batch", model_.file("lines.jsonl")});
  EXPECT_EQ(same.code, 0) << same.notes << "another way to write the name of the folder";
  const std::string vq = read_file(model_.file("vq.safetensors"));
  change_first_value(model_.file("vq.safetensors"), "quantize.embedding.weight");
  expect(refusal({}), "(vq_fingerprint ");
  model_.write("vq.safetensors", vq);
  change_first_value(model_.file("model.safetensors"), "norm.weight");
  expect(refusal({}), "(model_fingerprint ");
}

/// Under a rule that lets look-alikes through, drafts decide about codes.
TEST_F(ImageBatch, OfARelaxedRuleTakesNoPictureOfOtherDrafts) {
  const std::vector<std::string> relaxed = {"--verify", "epsilon:e=0.3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), relaxed.begin(), relaxed.end());
    return more;
  };
  drawn(kLines, with({"-d", "jacobi", "--policy", "fixed"}));
  const auto notes = [&](std::vector<std::string> more) { return batch(kLines, more).notes; };
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(notes(with({"-d", "jacobi", "--policy", "fixed"})), "3 of 3 pictures are there");
  expect(notes(with({"-d", "grid", "--policy", "fixed"})), "(drafter jacobi, not grid)");
  expect(notes(with({"-d", "jacobi"})), "(policy fixed, not throughput)");
  expect(notes({"-d", "jacobi"}), "(verify epsilon:e=0.3, not none)");
}

/// Under a rule that draws, drafts decide about codes, too, though not about their law.
TEST_F(ImageBatch, OfARuleThatDrawsTakesNoPictureOfOtherDrafts) {
  for (const char* rule : {"token", "block", "traversal"}) {
    const auto with = [&](const char* drafter, const char* policy) {
      return std::vector<std::string>{"--verify", rule, "-d", drafter, "--policy", policy};
    };
    fs::remove_all(folder());
    drawn(kLines, with("jacobi", "fixed"));
    expect_said(batch(kLines, with("jacobi", "fixed")), 0, "3 of 3 pictures are there");
    expect_said(batch(kLines, with("grid", "fixed")), 2, "(drafter jacobi, not grid)");
    expect_said(batch(kLines, with("jacobi", "throughput")), 2, "(policy fixed, not throughput)");
  }
}

/// Features under the name of a file that was written over are those of another picture.
TEST_F(ImageBatch, OfOtherFeaturesUnderOneNameIsAnother) {
  const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
  model_.write("config.json", read_file(golden / "lantern/config.json"));
  model_.write("model.safetensors", read_zstd(golden / "lantern/model.safetensors.zst"));
  model_.write("vq.safetensors", read_zstd(golden / "vq.pt.zst"));  // told apart by content
  const fs::path file = model_.file("caption.safetensors");
  const auto write_caption = [&](float first) {
    const std::vector<float> values(3 * 24, first);
    const TensorToWrite tensor{
        "features", StorageType::f32, {3, 24}, std::as_bytes(std::span(values))};
    write_safetensors(file, {&tensor, 1});
  };
  const std::string line = Json({{"caption_features", file.string()}}).dump() + "\n";
  write_caption(0.5F);
  drawn(line);
  write_caption(0.5F);
  EXPECT_EQ(batch(line).code, 0);
  write_caption(-0.5F);
  const Outcome other = batch(line);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.notes.find("line 1: "), std::string::npos) << other.notes;
  EXPECT_NE(other.notes.find("is another picture (caption_features "), std::string::npos)
      << other.notes;
}

/// Prints a name when its picture is whole, so what was interrupted has whole files only.
TEST_F(ImageBatch, ThatWasStoppedHasWholePicturesAndGoesOn) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "{\"prompt\": \"red cat flat\"}\n";
  Start start;
  start.arguments = arguments(lines, {"--threads", "1"});
  start.interrupt_after = "0 of 3000 pictures are there";
  const Outcome stopped = run_talon(start);
  ASSERT_EQ(stopped.code, 130) << stopped.notes;
  const std::size_t whole = there().size();
  EXPECT_LT(whole, 3000u);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(stopped.output, '\n')), whole);
  EXPECT_NE(stopped.notes.find("the same command goes on"), std::string::npos) << stopped.notes;
  for (const std::string& name : there()) EXPECT_TRUE(name.ends_with(".png")) << name;
}

TEST_F(ImageBatch, NamesTheLineThatIsWrong) {
  const auto refusal = [&](const std::string& second, std::vector<std::string> more = {}) {
    const Outcome outcome =
        batch("{\"prompt\": \"red cat flat\", \"out\": \"a.png\"}\n" + second + "\n", more);
    EXPECT_NE(outcome.code, 0) << second;
    EXPECT_FALSE(fs::exists(folder())) << "nothing is drawn";
    return outcome.notes;
  };
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(refusal("{"), "lines.jsonl line 2: ");
  expect(refusal("[1]"), "line 2: expected an object, found array");
  expect(refusal("{\"seed\": 1}"), "line 2: expected one of \"prompt\", \"class\" and");
  expect(refusal("{\"prompt\": \"cat flat\", \"class\": 1}"), "line 2: expected one of");
  expect(refusal("{\"prompt\": \"red caat flat\"}"), "line 2: prompt: expected words that");
  expect(refusal("{\"prompt\": 3}"), "line 2: prompt: expected a text, found 3");
  expect(refusal("{\"class\": 3}"), "line 2: prompt: expected words for");
  expect(refusal("{\"caption_features\": \"x\"}"), "line 2: prompt: expected words for");
  expect(refusal("{\"prompt\": \"cat flat\", \"sead\": 1}"), "line 2: expected keys among prompt");
  expect(refusal("{\"prompt\": \"cat flat\", \"seed\": 1.5}"), "line 2: seed: expected a whole");
  expect(refusal("{\"prompt\": \"cat flat\", \"seed\": -1}"), "of at least 0, found -1");
  expect(refusal("{\"prompt\": \"cat flat\", \"guidance\": -1}"), "line 2: guidance: expected");
  expect(refusal("{\"prompt\": \"cat flat\", \"guidance_tokens\": 1.5}"),
         "line 2: guidance_tokens: expected a whole number from 0 to");
  expect(refusal("{\"prompt\": \"cat flat\", \"out\": \"../a.png\"}"), "line 2: out: expected");
  expect(refusal("{\"prompt\": \"cat flat\", \"out\": \"a.png\"}"), "as in line 1");
  expect(refusal("{\"prompt\": \"cat flat\", \"out\": \"" + std::string(300, 'a') + "\"}"),
         "line 2: out: expected a name of at most 224 bytes, found 300 bytes");
  expect(refusal("", {"-n", "2"}), "--batch: expected no --images beside it");
  expect(refusal("", {"-p", "cat flat"}), "--batch: expected no --prompt beside it");
  expect(run_talon({"image", "-m", model_.path().string(), "--batch", "none.jsonl"}).notes,
         "--batch: expected -o");
  expect(run_talon({"image", "-m", model_.path().string(), "--batch", "none.jsonl", "-o", folder()})
             .notes,
         "none.jsonl");
}

}  // namespace
}  // namespace talon::test::image_batch_test
