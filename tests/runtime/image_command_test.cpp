#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "../faults/cli_process.h"
#include "image/png.h"
#include "io/codec/zstd.h"
#include "io/formats/write_safetensors.h"
#include "io/json.h"

// `talon image` with the tiny models of tests/data/golden/images.
namespace talon::test::image_command_test {
namespace {

namespace fs = std::filesystem;

Json last_line(const std::string& lines) {
  const std::size_t before = lines.rfind('\n', lines.size() - 2);
  return Json::parse(lines.substr(before == lines.npos ? 0 : before + 1));
}

class ImageCommand : public testing::Test {
 protected:
  ImageCommand() {
    const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
    for (const char* name : {"words/config.json", "words/words.json"})
      folder_.write(fs::path(name).filename(), read_file(golden / name));
    folder_.write("model.safetensors", read_zstd(golden / "words/model.safetensors.zst"));
    folder_.write("words.vq", read_zstd(golden / "words/vq.safetensors.zst"));
    folder_.write("vq.pt", read_zstd(golden / "vq.pt.zst"));  // of the others
    folder_.write("c2i.pt", read_zstd(golden / "c2i.pt.zst"));
  }

  Outcome image(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"image"};
    const auto add = [&](const char* flag, std::string value) {
      if (std::ranges::find(more, flag) == more.end())
        arguments.insert(arguments.end(), {flag, std::move(value)});
    };
    const bool words = std::ranges::find(more, folder_.path().string()) != more.end();
    add("--vq", folder_.file(words ? "words.vq" : "vq.pt"));
    add("-o", folder_.file("out.png"));
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_talon(std::move(arguments));
  }
  Json drawn(std::vector<std::string> more) const {
    more.insert(more.end(), {"-m", folder_.path().string(), "-p", "red cat flat", "--json"});
    const Outcome outcome = image(std::move(more));
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    return Json::parse(outcome.output);
  }

  Folder folder_;
};

TEST_F(ImageCommand, EveryWayToDrawGivesTheSamePictures) {
  const Json plain = drawn({"-n", "3", "-d", "none"});
  const std::string first = read_file(folder_.file("out-1.png"));
  EXPECT_EQ(first.substr(1, 3), "PNG");
  EXPECT_EQ(plain["images"].size(), 3u);
  EXPECT_EQ(plain["images"][0]["tokens"].size(), 15u);
  EXPECT_EQ(plain["images"][0]["width"], 10);
  EXPECT_EQ(plain["tau"], 1.0);
  const Json together =
      drawn({"-n", "3", "-d", "jacobi+grid@policy=fixed", "--compare", "--threads", "2"});
  EXPECT_EQ(together["equal"], true);
  const Json third = drawn({"--seed", "3", "-d", "grid", "--chunk", "2"});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(plain["images"][i]["tokens"], together["images"][i]["tokens"]);
  EXPECT_EQ(plain["images"][2]["tokens"], third["images"][0]["tokens"]);
}

TEST_F(ImageCommand, GuidanceAndSeedMakeOtherPictures) {
  const Json base = drawn({}), unguided = drawn({"--guidance", "1"}),
             other = drawn({"--seed", "2"});
  EXPECT_NE(base["images"][0]["tokens"], unguided["images"][0]["tokens"]);
  EXPECT_NE(base["images"][0]["tokens"], other["images"][0]["tokens"]);
  const Json all = drawn({"--guidance", "20"}),
             first = drawn({"--guidance", "20", "--guidance-tokens", "1"});
  EXPECT_NE(all["images"][0]["tokens"], first["images"][0]["tokens"]);
  EXPECT_EQ(all["images"][0]["tokens"][0], first["images"][0]["tokens"][0]);
}

TEST_F(ImageCommand, DrawsSheetsAndClasses) {
  const Outcome outcome = image(
      {"-m", folder_.file("c2i.pt"), "--cells", "4", "--class", "2", "--grid", "2x2", "--compare"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(outcome.output, folder_.file("out.png") + "\n");
  EXPECT_NE(outcome.notes.find("the same pictures"), std::string::npos) << outcome.notes;
  EXPECT_EQ(read_png_texts(folder_.file("out.png")).back(),
            (std::pair<std::string, std::string>{"sheet", "2x2"}));
}

TEST_F(ImageCommand, ClassesHaveNames) {
  folder_.write("classes.json", R"(["tench, Tinca tinca", "goldfish", "hen", "ostrich", "jay"])");
  const auto tokens = [&](const char* flag, const char* value) {
    const Outcome outcome =
        image({"-m", folder_.file("c2i.pt"), "--cells", "4", flag, value, "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    return Json::parse(outcome.output)["images"][0]["tokens"];
  };
  const Json second = tokens("--class", "1");
  EXPECT_EQ(tokens("--class", "Goldfish"), second);
  EXPECT_EQ(tokens("-p", "goldfish"), second);
  EXPECT_NE(tokens("-p", "tinca tinca"), second);
}

TEST_F(ImageCommand, ShowsPicturesInHalfBlocks) {
  const Outcome silent = image({"-m", folder_.path().string(), "-p", "red cat flat"});
  EXPECT_EQ(silent.notes.find("▀"), std::string::npos) << "no terminal";
  const Outcome shown =
      image({"-m", folder_.path().string(), "-p", "red cat flat", "--show", "always"});
  EXPECT_EQ(shown.output, silent.output);
  std::size_t blocks = 0;
  for (auto at = shown.notes.find("▀"); at != shown.notes.npos; at = shown.notes.find("▀", at + 1))
    ++blocks;
  EXPECT_EQ(blocks, 30u) << "10 by 6 pixels, two in a character";
  EXPECT_NE(shown.notes.find("\x1b[38;2;"), std::string::npos);
  EXPECT_EQ(shown.notes.find("\x1b[3A"), std::string::npos) << "only at the end";
  EXPECT_NE(shown.notes.find("15 tokens in "), std::string::npos) << shown.notes;
}

TEST_F(ImageCommand, WritesHowThePictureGrew) {
  const std::string film = folder_.file("film.png");
  const Json json = drawn({"-d", "jacobi@policy=fixed", "--watch", film});
  const std::string bytes = read_file(film);
  EXPECT_EQ(bytes.substr(1, 3), "PNG");
  std::size_t frames = 0;
  for (auto at = bytes.find("fcTL"); at != bytes.npos; at = bytes.find("fcTL", at + 1)) ++frames;
  EXPECT_EQ(frames, 16u) << "as many as forwards of plain drawing, and the picture itself";
  EXPECT_EQ(json["images"].size(), 1u);
}

/// LANTERN's folder and its drafter.
TEST_F(ImageCommand, DrawsFromCaptions) {
  const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
  const Folder model, head;
  for (const auto& [folder, name] : {std::pair(&model, "lantern"), {&head, "lantern_head"}}) {
    folder->write("config.json", read_file(golden / name / "config.json"));
    folder->write("model.safetensors", read_zstd(golden / name / "model.safetensors.zst"));
  }
  folder_.write("caption", read_zstd(golden / "t2i.golden.safetensors.zst"));
  const Outcome outcome =
      image({"-m", model.path().string(), "--caption-features", folder_.file("caption"), "-n", "2",
             "--compare", "-d", "eagle2:head=" + head.path().string() + "@policy=fixed", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const Json drawn = Json::parse(outcome.output);
  EXPECT_EQ(drawn["equal"], true);
  EXPECT_EQ(drawn["images"][1]["tokens"].size(), 16u);
  EXPECT_EQ(drawn["images"][0]["prompt"], "caption");
  folder_.write("prompts.jsonl",
                Json({{"caption_features", folder_.file("caption")}}).dump() + "\n");
  const Outcome bench = run_talon({"bench", "image", "-m", model.path().string(), "--prompts",
                                   folder_.file("prompts.jsonl"), "--methods", "jacobi"});
  EXPECT_EQ(bench.code, 0) << bench.notes;
  EXPECT_NE(bench.output.find("\"impossible\":0"), std::string::npos) << bench.output;
  EXPECT_NE(image({"-m", model.path().string(), "-p", "cat"}).notes.find("features of a caption"),
            std::string::npos);
}

TEST_F(ImageCommand, SaysWhatIsWrong) {
  const auto notes = [&](std::vector<std::string> more) {
    const Outcome outcome = image(std::move(more));
    EXPECT_NE(outcome.code, 0);
    return outcome.notes;
  };
  const std::string model = folder_.path().string(), classes = folder_.file("c2i.pt");
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(notes({"-m", model}), "expected one of -p, --class, --caption-features and --batch");
  expect(notes({"-m", model, "--class", "1"}), "prompt: expected words for");
  expect(notes({"-m", model, "--class", "cat"}), "prompt: expected words for");
  expect(notes({"-m", classes, "--class", "hen", "--cells", "4"}), "has no classes.json beside it");
  expect(notes({"-m", model, "-p", "rad flat"}), "such as red, cat");
  expect(notes({"-m", classes, "--class", "5", "--cells", "4"}), "expected a number from 0 to 4");
  expect(notes({"-m", classes, "--class", "1"}), "--cells");
  expect(notes({"-m", small_model(), "-p", "x"}), "which writes text");
  expect(notes({"-m", model, "-p", "cat flat", "--vq", folder_.file("none")}), "no such file");
  expect(notes({"-m", model, "-p", "cat flat", "--vq", classes}), "quantize.embedding.weight");
  expect(notes({"-m", model, "-p", "cat flat", "--grid", "3"}), "expected COLUMNSxROWS");
  const std::string none = folder_.file("none");
  expect(notes({"-m", model, "--batch", none}), "read " + none + ": No such file");
  const Outcome bench = run_talon(
      {"bench", "image", "-m", model, "--methods", "jacobi", "--prompts", folder_.file("none")});
  expect(bench.notes, "read " + none + ": No such file");
  expect(notes({"-m", model, "-p", "cat flat", "--show", "maybe"}), "--show");
  expect(notes({"-m", model, "-p", "cat flat", "--guidance", "nan"}), "--guidance");
  expect(notes({"-m", model, "-p", "cat flat", "-o", "/no/such/x.png"}), "/no/such/x.png");
  expect(notes({"-m", none, "-p", "cat flat", "-o", "/no/such/x.png"}), "/no/such/x.png");
  expect(notes({"-m", none, "-p", "cat flat", "--watch", "/no/such/x.png"}), "/no/such/x.png");
  const std::string out = folder_.file("out.png");
  expect(notes({"-m", none, "-p", "cat flat", "--watch", out}),
         "--watch: expected another file than that of -o");
  expect(notes({"-m", model, "-p", ""}), "--prompt: expected a text that is not empty");
  expect(notes({"-m", classes, "--class", ""}), "--class: expected a text that is not empty");
  expect(notes({"-m", model, "-p", "cat flat", "--grid", "2x2", "-n", "3"}),
         "--grid: expected as many places as -n has pictures, 3, found 4");
}

TEST_F(ImageCommand, AContextWithoutRoomForThePictureIsRefused) {
  const std::vector<std::string> classes = {
      "-m", folder_.file("c2i.pt"), "--cells", "4", "--class", "1", "--context"};
  const auto of_classes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), classes.begin(), classes.end());
    return image(std::move(more));
  };
  for (const char* context : {"10", "16"}) {
    expect_said(of_classes({context}), 2,
                "context: expected at least 17 tokens for a picture, 1 of the prompt and 16");
  }
  EXPECT_EQ(of_classes({"17"}).code, 0);
  expect_said(image({"-m", folder_.path().string(), "-p", "red cat flat", "--context", "20"}), 2,
              "expected at least 21 tokens");
  const std::string prompts = folder_.write("prompts.jsonl", "{\"prompt\": \"red cat flat\"}\n");
  expect_said(run_talon({"bench", "image", "-m", folder_.path().string(), "--prompts", prompts,
                         "--methods", "jacobi", "--context", "10"}),
              2, "prompts.jsonl line 1: context: expected at least 21");
}

TEST_F(ImageCommand, ATokenizerOfOtherCodesThanTheModelsIsRefused) {
  expect_said(
      image({"-m", folder_.path().string(), "-p", "red cat flat", "--vq", folder_.file("vq.pt")}),
      1, "vq.pt: expected the 40 codes of the model, found 48");
  expect_said(image({"-m", folder_.file("c2i.pt"), "--cells", "4", "--class", "2", "--vq",
                     folder_.file("words.vq")}),
              1, "words.vq: expected the 48 codes of the model, found 40");
}

TEST_F(ImageCommand, ACodebookOfOtherCodesThanTheModelsIsRefused) {
  const std::vector<float> values(24 * 8, 1);
  const TensorToWrite table{
      "quantize.embedding.weight", StorageType::f32, {24, 8}, std::as_bytes(std::span(values))};
  write_safetensors(folder_.file("small.safetensors"), std::span(&table, 1), {});
  expect_said(image({"-m", folder_.path().string(), "-p", "red cat flat", "--verify",
                     "lantern:codebook=" + folder_.file("small.safetensors")}),
              1, "codebook: expected the 40 codes of the model, found 24");
}

TEST_F(ImageCommand, IsForModelsThatDraw) {
  const std::string model = folder_.path().string(), text = folder_.write("text", "a b");
  const char* part = "model: expected one that writes text";
  expect_said(run_talon({"run", "-m", model, "-p", "x"}), 2, part);
  expect_said(run_talon({"chat", "-m", model}), 2, part);
  expect_said(run_talon({"score", "-m", model, "-f", text}), 2, "talon image");
  const std::string prompts = folder_.write("prompts.jsonl", "{\"prompt\": \"x\"}\n");
  part = "model: expected one that draws pictures";
  expect_said(image({"-m", small_model(), "--batch", prompts, "-o", folder_.file("out")}), 2, part);
  expect_said(run_talon({"bench", "image", "-m", small_model(), "--methods", "jacobi", "--prompts",
                         prompts, "--pictures", folder_.file("out")}),
              2, part);
}

TEST_F(ImageCommand, EveryCommandIsToldTheCellsThatAFileDoesNotTell) {
  const std::string model = folder_.file("c2i.pt");
  const Outcome inspected = run_talon({"inspect", model, "--cells", "4", "--json"});
  ASSERT_EQ(inspected.code, 0) << inspected.notes;
  EXPECT_EQ(Json::parse(inspected.output)["config"]["cells"], "4x4");
  const std::string prompts = folder_.write(
      "prompts.jsonl", "{\"prompt\": \"2\", \"source\": \"s\", \"licence\": \"l\"}\n");
  const std::vector<std::string> data = {"train",     "data",  "-m", model,
                                         "--prompts", prompts, "-o", folder_.file("data")};
  expect_said(run_talon(data), 1, "(--cells)");
  std::vector<std::string> told = data;
  told.insert(told.end(), {"--cells", "4"});
  expect_said(run_talon(told), 0, "1 conversations, 16 response tokens");
}

TEST_F(ImageCommand, InspectSaysWhatIsDrawnAndWhatIsMissing) {
  const auto inspected = [&](const std::string& model) {
    const Outcome outcome = run_talon({"inspect", model, "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    return Json::parse(outcome.output);
  };
  const Json words = inspected(folder_.path().string());
  EXPECT_EQ(words["config"]["cells"], "5x3");
  EXPECT_EQ(words["config"]["prompt"], "words");
  EXPECT_TRUE(words["tokenizer"].is_null());
  const Json& pictures = words["pictures"];
  EXPECT_EQ(pictures["missing"], Json::array({"vq"}));
  EXPECT_NE(pictures["vq"]["problem"].get<std::string>().find("vq.safetensors"), std::string::npos);
  EXPECT_TRUE(pictures["words"].get<std::string>().ends_with("words.json")) << pictures;
  EXPECT_GT(words["cache"]["cache_bytes"], 0);
}

TEST_F(ImageCommand, ADepthThatIsNotTheFilesIsRefused) {
  Json config = Json::parse(read_file(folder_.file("config.json")));
  for (const int layers : {1, 3}) {
    config["num_hidden_layers"] = layers;
    folder_.write("config.json", config.dump());
    expect_said(image({"-m", folder_.path().string(), "-p", "red cat flat"}), 1,
                "num_hidden_layers");
  }
}

TEST_F(ImageCommand, ARelaxedRulePromisesNoSamePicture) {
  const Json json = drawn(
      {"-n", "4", "--compare", "-d", "jacobi@policy=fixed", "--verify", "lantern:k=30,lambda=50"});
  EXPECT_GT(json["distortion"], 0.0) << "by the codes of --vq";
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["claims_equal"], false);
}

TEST_F(ImageCommand, BenchPutsWaysToDrawBesidePlainDrawing) {
  folder_.write("prompts.jsonl", "{\"prompt\": \"red cat flat\"}\n{\"prompt\": \"round\"}\n");
  const std::string relaxed = "jacobi@policy=fixed@verify=lantern:k=30,lambda=50";
  const std::string exact = "jacobi@policy=fixed";
  const Outcome outcome = run_talon({"bench", "image", "-m", folder_.path().string(), "--prompts",
                                     folder_.file("prompts.jsonl"), "-n", "8", "--methods",
                                     exact + "," + relaxed, "--vq", folder_.file("words.vq")});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  std::istringstream lines(outcome.output);
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  ASSERT_EQ(all.size(), 2 * 8 * 3 + 1);
  EXPECT_EQ(all[1]["method"], exact);
  EXPECT_EQ(all[1]["tokens"], 15);
  const Json& closing = all.back();
  for (const char* key : {"commit", "date", "machine", "backend", "model"})
    EXPECT_TRUE(closing.contains(key)) << key;
  EXPECT_EQ(closing["partial"], false);
  EXPECT_EQ(closing["settings"]["images"], 8);
  EXPECT_EQ(closing["settings"]["guidance"], 2.0);
  EXPECT_EQ(closing["settings"]["temperature"], 1.0);
  const Json& summary = closing["summary"];
  EXPECT_EQ(summary["none"]["tau"], 1.0);
  EXPECT_EQ(summary[exact]["images"], 16);
  EXPECT_EQ(summary[exact]["equal"], 1.0);
  EXPECT_EQ(summary[exact]["distortion"], 0.0);
  EXPECT_EQ(summary[exact]["impossible"], 0);
  EXPECT_LT(summary[relaxed]["equal"], 1.0);
  EXPECT_GT(summary[relaxed]["distortion"], 0.0);
  EXPECT_GT(summary[relaxed]["relaxed"], 0.0);
  EXPECT_GT(summary[relaxed]["nodes"], 0.0);
  EXPECT_EQ(summary["none"]["nodes"], 0.0);
  EXPECT_GE(summary[relaxed]["tau"], summary[exact]["tau"]);
}

TEST_F(ImageCommand, OtherCodesOfTheSameLawAreNoFailureOfTheBench) {
  folder_.write("prompts.jsonl", "{\"prompt\": \"red cat flat\"}\n");
  const std::string method = "jacobi@policy=fixed@verify=token";
  const Outcome outcome =
      run_talon({"bench", "image", "-m", folder_.path().string(), "--prompts",
                 folder_.file("prompts.jsonl"), "-n", "8", "--methods", method});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_LT(last_line(outcome.output)["summary"][method]["equal"], 1.0);
}

TEST_F(ImageCommand, LinesOfBenchSaySeedAndGuidance) {
  const auto bench = [&](const std::string& lines, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"bench", "image", "-m", folder_.path().string(), "--methods",
                               "jacobi", "--prompts", folder_.write("prompts.jsonl", lines)});
    return run_talon(std::move(more));
  };
  const std::string guided = "{\"prompt\": \"red cat flat\", \"seed\": 9, \"guidance\": 3}\n";
  const std::string plain = "{\"prompt\": \"round\"}\n";
  const Outcome outcome =
      bench("\n" + plain + " \n" + guided + plain, {"--guidance", "1", "--limit", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  std::istringstream lines(outcome.output);
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  ASSERT_EQ(all.size(), 2 * 2 + 1);
  EXPECT_EQ(all[0]["seed"], 1);
  EXPECT_EQ(all[2]["seed"], 9);
  const Outcome same =
      bench("{\"prompt\": \"red cat flat\"}\n", {"--guidance", "3", "--seed", "9"});
  EXPECT_EQ(Json::parse(same.output.substr(0, same.output.find('\n')))["surprise"],
            all[2]["surprise"]);
  expect_said(bench("\n{\"prompt\": \"round\", \"sead\": 1}\n"), 2,
              "prompts.jsonl line 2: expected keys among prompt, class, caption_features, seed, "
              "guidance, guidance_tokens, source, licence, found \"sead\"");
  expect_said(bench("{\"prompt\": \"round\", \"seed\": -1}\n"), 2,
              "line 1: seed: expected a whole");
}

TEST_F(ImageCommand, AStoppedBenchSumsUpWhatIsFinished) {
  Start start;
  start.arguments = {"bench",     "image",
                     "-m",        folder_.path().string(),
                     "--methods", "jacobi",
                     "--prompts", folder_.write("prompts.jsonl", "{\"prompt\": \"round\"}\n"),
                     "-n",        "50000"};
  start.output_file = folder_.file("rows.jsonl");
  start.interrupt_when = [&] {
    return read_file(start.output_file).find("\"jacobi\"") != std::string::npos;
  };
  const Outcome outcome = run_talon(start);
  EXPECT_EQ(outcome.code, 130) << outcome.notes;
  EXPECT_NE(outcome.notes.find("of 50000 pictures"), std::string::npos) << outcome.notes;
  const Json closing = last_line(read_file(start.output_file));
  EXPECT_EQ(closing["partial"], true);
  const Json& summary = closing["summary"];
  EXPECT_LT(summary["jacobi"]["images"], 50000);
  EXPECT_EQ(summary["none"]["images"], summary["jacobi"]["images"]);
}

TEST_F(ImageCommand, BenchKeepsThePicturesOfEachMethodAndAReport) {
  folder_.write("prompts.jsonl", "{\"prompt\": \"red cat flat\"}\n{\"prompt\": \"cat flat\"}\n");
  const std::string pictures = folder_.file("pictures"), report = folder_.file("report");
  const std::vector<std::string> command = {"bench",      "image",
                                            "-m",         folder_.path().string(),
                                            "--prompts",  folder_.file("prompts.jsonl"),
                                            "--methods",  "jacobi:window=8",
                                            "--vq",       folder_.file("words.vq"),
                                            "--pictures", pictures,
                                            "--report",   report};
  const Outcome outcome = run_talon(command);
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(read_file(fs::path(report) / "pictures.jsonl"), outcome.output);
  const Json summary = last_line(outcome.output);
  const Json& methods = summary["summary"];
  const fs::path plain = methods["none"]["pictures"].get<std::string>(),
                 drafted = methods["jacobi:window=8"]["pictures"].get<std::string>();
  EXPECT_EQ(plain, fs::path(pictures) / "00-none");
  EXPECT_EQ(drafted, fs::path(pictures) / "01-jacobi");
  for (const char* name : {"00001.png", "00002.png"}) {
    const PngFile a = read_png(plain / name, 10), b = read_png(drafted / name, 10);
    EXPECT_EQ(a.picture.rgb, b.picture.rgb) << name;
    EXPECT_EQ(a.texts[0], b.texts[0]) << "the prompt";
  }
  EXPECT_EQ(read_png(plain / "00002.png", 10).texts[0].second, "cat flat");
  EXPECT_NE(read_file(fs::path(report) / "pictures.html").find("\"kind\":\"pictures\""),
            std::string::npos);
  EXPECT_NE(read_file(fs::path(report) / "pictures.md").find("jacobi:window=8"), std::string::npos);
  expect_said(run_talon(command), 1, "00-none to be empty, found files in it");
}

}  // namespace
}  // namespace talon::test::image_command_test
