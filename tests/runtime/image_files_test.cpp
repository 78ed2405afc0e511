#include <gtest/gtest.h>

#include "../faults/cli_process.h"
#include "image/png.h"
#include "io/codec/zstd.h"
#include "io/json.h"

// Where `talon image` writes, and what it says, with a tiny model of tests/data/golden/images.
namespace talon::test::image_files_test {
namespace {

namespace fs = std::filesystem;

class ImageFiles : public testing::Test {
 protected:
  ImageFiles() {
    const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
    for (const char* name : {"config.json", "words.json"})
      model_.write(name, read_file(golden / "words" / name));
    model_.write("model.safetensors", read_zstd(golden / "words/model.safetensors.zst"));
    model_.write("vq.safetensors", read_zstd(golden / "words/vq.safetensors.zst"));
  }

  std::vector<std::string> arguments(std::vector<std::string> more) const {
    more.insert(more.begin(), {"image", "-m", model_.path().string(), "-p", "red cat flat"});
    return more;
  }
  std::string files(std::vector<std::string> more) const {
    const Outcome outcome = run_talon(arguments(std::move(more)));
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    return outcome.output;
  }

  Json said(std::vector<std::string> more) const {
    more.insert(more.end(), {"-o", out_.file("said/"), "-n", "8", "--json"});
    return Json::parse(files(std::move(more)));
  }

  Folder model_, out_;
};

TEST_F(ImageFiles, OfARelaxedRuleAreDescribedByWhatItChanged) {
  const Json plain = said({"-d", "none"});
  EXPECT_EQ(plain["tau_foreground"], 1.0);
  EXPECT_EQ(plain["relaxed"], 0.0);
  EXPECT_TRUE(plain["surprise"].is_null());
  const Json relaxed =
      said({"-d", "jacobi", "--policy", "fixed", "--verify", "lantern:k=30,lambda=50"});
  EXPECT_GT(relaxed["distortion"], 0.0) << "by the codes of the model's tokenizer";
  EXPECT_GT(relaxed["relaxed"], 0.0);
  EXPECT_LE(relaxed["relaxed"], 1.0);
  EXPECT_GT(relaxed["tau_foreground"], 1.0);
  EXPECT_TRUE(relaxed["surprise"].is_number());
}

TEST_F(ImageFiles, ARuleThatComparesCodesIsForPictures) {
  expect_said(
      run_talon({"run", "-m", small_model(), "-p", "x", "--verify", "lantern:k=10,lambda=2"}), 2,
      "lantern: option codebook: expected the file of an image tokenizer");
}

TEST_F(ImageFiles, WithNamesOfClassesThatCannotBeReadAreNotDrawn) {
  model_.write("c2i.pt", read_zstd(fs::path(TALON_TEST_DATA) / "golden/images/c2i.pt.zst"));
  const std::string names = model_.file("classes.json");
  fs::create_symlink("classes.json", names);
  expect_said(run_talon({"image", "-m", model_.file("c2i.pt"), "--cells", "4", "--class", "hen",
                         "-o", out_.file("out.png")}),
              1, "read " + names + ": Too many levels of symbolic links");
}

TEST_F(ImageFiles, InAFolderHaveNumbers) {
  const std::string made = out_.file("made/");
  const std::string first = made + "00001.png", second = made + "00002.png";
  EXPECT_EQ(files({"-n", "2", "-o", made}), first + "\n" + second + "\n");
  EXPECT_EQ(read_png_texts(second)[1].second, "2") << "the seed";
  fs::remove(first);
  EXPECT_EQ(files({"-o", out_.file("made")}), first + "\n");
  EXPECT_TRUE(fs::exists(first));
}

TEST_F(ImageFiles, AreNotThereWhereTheDiskIsFull) {
  Start start;
  start.arguments = arguments({"-o", out_.file("out.png"), "--json"});
  start.most_file_bytes = 64;
  const Outcome outcome = run_talon(start);
  EXPECT_EQ(outcome.code, 1) << outcome.notes;
  EXPECT_FALSE(fs::exists(out_.file("out.png")));
}

TEST_F(ImageFiles, OfPicturesThatAreFinishedAreThereWhenTheOthersAreStopped) {
  Start start;
  start.arguments =
      arguments({"-o", out_.file("many.png"), "-n", "4096", "--threads", "1", "--json"});
  start.interrupt_when = [&] { return fs::exists(out_.file("many-3.png")); };
  const Outcome outcome = run_talon(start);
  ASSERT_EQ(outcome.code, 130) << outcome.notes;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["partial"], true);
  ASSERT_GE(json["images"].size(), 1u);
  ASSERT_LT(json["images"].size(), 4096u);
  for (const Json& one : json["images"]) {
    const std::string file = one["file"], seed = one["seed"].dump();
    EXPECT_EQ(file, out_.file("many-" + seed + ".png"));
    EXPECT_EQ(read_png_texts(file)[1].second, seed);
  }
  EXPECT_NE(outcome.notes.find("of 4096 pictures were drawn"), std::string::npos) << outcome.notes;
}

}  // namespace
}  // namespace talon::test::image_files_test
