#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "image/prompt_words.h"
#include "image/vq_decoder.h"
#include "io/checkpoint.h"
#include "io/test_files.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "train/image/picture_codes.h"
#include "train/image/stored_tokenizer.h"
#include "train/image/test_image_runs.h"
#include "train/image/train_features.h"
#include "train/image/views.h"

namespace talon::train_image_test {
namespace {

namespace fs = std::filesystem;

using namespace image_data_test;

/// One pass with the values of a run "first", which changes as good as nothing.
ImageModelOptions begun_with_the_first(const Folder& data) {
  ImageModelOptions options = small_model(data, data / "second", 1);
  options.schedule.rate = 1e-9;
  options.schedule.start = (data / "first/checkpoint.safetensors").string();
  return options;
}

TEST(TrainTokenizer, LearnsTheEightPicturesThatItSees) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "short", 11);
  make_tokenizer(data, data / "tokenizer", 150);
  const PictureSet pictures(data.string());
  std::vector<PictureView> views;
  for (std::size_t i = 0; i < 8; ++i) views.push_back({.picture = i});
  const torch::Tensor originals = render(pictures, views);
  const auto error = [&](const fs::path& folder) {
    const StoredTokenizer tokenizer(folder, torch::kFloat);
    return (tokenizer.pictures_of(tokenizer.codes_of(originals)) - originals)
        .abs()
        .mean()
        .item<double>();
  };
  EXPECT_LT(error(data / "tokenizer"), 0.06);
  EXPECT_GT(error(data / "short"), 0.2);
}

TEST(TrainTokenizer, StoppedAndStartedAgainItGivesTheSameFileBitForBit) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "straight", 20);
  Stopper stopper(13);  // after the codebook was begun
  const TokenizerOptions options = small_tokenizer(data, data / "stopped", 20);
  EXPECT_FALSE(train_tokenizer(options, stopper.hooks).finished);
  EXPECT_FALSE(fs::exists(data / "stopped/vq.safetensors"));
  EXPECT_TRUE(train_tokenizer(options, quiet()).finished);
  EXPECT_EQ(bytes_of(data / "straight/vq.safetensors"), bytes_of(data / "stopped/vq.safetensors"));
}

TEST(TrainTokenizer, ARunMayBeMadeLongerButNotShorterThanItIs) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 20);
  const TokenizerOptions longer = small_tokenizer(data, data / "tokenizer", 30);
  const TrainingResult result = train_tokenizer(longer, quiet());
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.facts["pictures"], 240);
  EXPECT_EQ(result.facts["planned_before"],
            Json::parse(R"([{"until_iteration": 20, "epochs": 20.0}])"));
  try {
    train_tokenizer(small_tokenizer(data, data / "tokenizer", 15), quiet());
    FAIL() << "a run of 30 epochs cannot end after 15";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected at least 30.00, found 15"),
              std::string::npos)
        << error.what();
  }
}

TEST(TrainTokenizer, ALongerRunThatDidNotEndGoesOn) {
  const Folder data;
  write_pictures(data, 9);
  const auto weights = [&](const char* out) { return bytes_of(data / out / "vq.safetensors"); };
  make_tokenizer(data, data / "straight", 20);
  const std::string before = weights("straight");
  make_tokenizer(data, data / "straight", 30);
  ASSERT_NE(weights("straight"), before);
  for (const char* end : {"iteration 30:", "held out at iteration 30:"}) {
    fs::remove_all(data / "ended");
    make_tokenizer(data, data / "ended", 20);
    const TokenizerOptions longer = small_tokenizer(data, data / "ended", 30);
    Ender ender(end, /*is_killed=*/std::string_view(end).starts_with("held"));
    try {
      EXPECT_FALSE(train_tokenizer(longer, ender.hooks).finished);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "killed");
    }
    EXPECT_EQ(weights("ended"), before);
    EXPECT_TRUE(train_tokenizer(longer, quiet()).finished);
    EXPECT_EQ(weights("ended"), weights("straight")) << end;
    EXPECT_TRUE(fs::exists(data / "ended/done"));
  }
}

TEST(TrainTokenizer, ARunOfOtherSettingsOrPicturesIsRefusedByName) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 20);
  const auto refusal = [&](const TokenizerOptions& options) -> std::string {
    try {
      train_tokenizer(options, quiet());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  TokenizerOptions options = small_tokenizer(data, data / "tokenizer", 20);
  options.schedule.rate = 1;
  EXPECT_NE(refusal(options).find("setting \"rate\""), std::string::npos) << refusal(options);
  options = small_tokenizer(data, data / "tokenizer", 20);
  write_pictures(data, 9, 1, /*blue=*/127);
  EXPECT_NE(refusal(options).find("setting \"contents_sha256\": expected"), std::string::npos)
      << refusal(options);
  write_pictures(data, 10);
  EXPECT_NE(refusal(options).find("setting \""), std::string::npos) << refusal(options);
  options.schedule.epochs = 0.5;
  EXPECT_NE(refusal(options).find("fewer than the 1 iterations of --epochs 0.5, got 10"),
            std::string::npos)
      << refusal(options);
  options.schedule.epochs = 20;
  options.channels = 48;
  EXPECT_NE(refusal(options).find("multiples of 32 channels, got 48"), std::string::npos);
}

/// Of a folder of a run, one that lacks the hash of pixels, as those of before do.
TEST(TrainTokenizer, ARunOfBeforeIsGoneOnWith) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 20);
  const fs::path file = data / "tokenizer/checkpoint.safetensors";
  std::string bytes = bytes_of(file);
  bytes[bytes.find("contents_sha256")] = 'C';
  std::ofstream(file, std::ios::binary) << bytes;
  const TokenizerOptions longer = small_tokenizer(data, data / "tokenizer", 21);
  EXPECT_TRUE(train_tokenizer(longer, quiet()).finished);
  EXPECT_NE(bytes_of(file).find("contents_sha256"), std::string::npos) << "from here on";
}

TEST(TrainImageModel, LearnsTheCodesOfTheEightPicturesThatItSees) {
  const CodedFolder data;
  const TrainingResult result = train_image_model(small_model(data, data / "model", 150), quiet());
  ASSERT_TRUE(result.finished);
  const Json nats = result.facts["evaluation"];
  EXPECT_LT(nats["nats_train"].get<double>(), 0.05);
  EXPECT_NE(nats["nats_without_words"], nats["nats"]);
  const Json config = Json::parse(bytes_of(data / "model/model/config.json"));
  EXPECT_EQ(config["grid"], Json({4, 4}));
  EXPECT_EQ(config["prompt_rows"], 12);  // without the word of the picture that is held out
  const Checkpoint model = read_safetensors(data / "model/model/model.safetensors");
  EXPECT_EQ(model.require("layers.1.attention.wqkv.weight").shape,
            (std::vector<std::int64_t>{96, 32}));
}

TEST(TrainImageModel, StartsFromTheValuesOfAnotherRunOfTheSameShape) {
  const CodedFolder data;
  ASSERT_TRUE(train_image_model(small_model(data, data / "first", 150), quiet()).finished);
  ImageModelOptions options = begun_with_the_first(data);
  const Json facts = train_image_model(options, quiet()).facts;
  EXPECT_LT(facts["evaluation"]["nats_train"].get<double>(), 0.05);
  EXPECT_EQ(facts["pictures"], 8);
  EXPECT_EQ(facts["start"], options.schedule.start);
  options.schedule.out = (data / "third").string();
  options.layers = 1;
  try {
    train_image_model(options, quiet());
    FAIL() << "a checkpoint of another shape was begun with";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("setting \"shape\": expected"), std::string::npos)
        << error.what();
  }
}

TEST(TrainImageModel, OfSomeCategoriesItKnowsTheWordsOfTheirPicturesAlone) {
  const CodedFolder data;
  ASSERT_TRUE(train_image_model(small_model(data, data / "first", 1), quiet()).finished);
  ImageModelOptions options = begun_with_the_first(data);
  options.categories = {"second"};
  EXPECT_EQ(train_image_model(options, quiet()).facts["pictures"], 4);  // the fifth is held out
  const Json words = Json::parse(bytes_of(data / "second/model/words.json"));
  EXPECT_EQ(words["words"], Json({"box", "n4", "n5", "n6", "n7"}));
  const auto table = [&](const char* run) {
    const Checkpoint model = read_safetensors(data / run / "model/model.safetensors");
    const StoredTensor& rows = model.require(kPromptTable);
    const torch::Tensor values = torch::empty(rows.shape, torch::kBFloat16);
    read_tensor(model, kPromptTable, values);
    return values;
  };
  const torch::Tensor kept = torch::tensor({0, 5, 6, 7, 8, 9, 10, 11});  // two styles, no word
  EXPECT_TRUE(at::equal(table("second"), table("first").index_select(0, kept)));

  options.categories = {"second", "third"};
  try {
    train_image_model(options, quiet());
    FAIL() << "there is no third category";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(R"(some of "first", "second", got "third")"),
              std::string::npos)
        << error.what();
  }
}

/// The folder that training writes is one that `talon image` draws with.
TEST(TrainImageModel, TheEngineDrawsThePicturesThatItHasLearned) {
  const CodedFolder data;
  ASSERT_TRUE(train_image_model(small_model(data, data / "model", 150), quiet()).finished);
  const fs::path folder = data / "model/model";
  const PictureSet pictures(data.string());
  const torch::Tensor codes = read_codes(data / "codes", pictures).codes[0];

  const auto backend = make_cpu_backend({});
  const Model model = load_model(open_checkpoint(folder), *backend);
  const auto cache = open_cache(model, {.bytes = std::size_t{4} << 20, .type = KvType::f32});
  Answerer answerer(model, *cache, nullptr, with_method({}, parse_method("jacobi@policy=fixed")));
  const PromptWords words = PromptWords::read(folder / "words.json");
  const VqDecoder decoder(open_checkpoint(folder / "vq.safetensors"), 4, 4);
  const StoredTokenizer tokenizer(data / "tokenizer", torch::kFloat);
  for (int i = 0; i < 8; ++i) {
    const std::string prompt = fmt::format("box n{} {}", i, i % 2 == 0 ? "flat" : "round");
    Request request;
    for (const int row : words.rows_of(prompt, model.config.image->prompt_tokens))
      request.prompt.push_back(model.config.vocabulary + row);
    request.max_new = model.config.image->cells();
    const std::vector<TokenId> drawn = answerer.decode(request).tokens;
    const torch::Tensor own = codes[i].contiguous();
    EXPECT_EQ(drawn, std::vector<TokenId>(own.data_ptr<int>(), own.data_ptr<int>() + 16)) << i;
    const std::vector<float> pixels = decoder.values(drawn);
    const torch::Tensor expected = tokenizer.pictures_of(own.to(torch::kLong).unsqueeze(0));
    const torch::Tensor found =
        torch::tensor(pixels).reshape({1, 16, 16, 3}).permute({0, 3, 1, 2}).clamp(-1, 1);
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-4) << i;
  }
}

TEST(TrainImageModel, StoppedAndStartedAgainItGivesTheSameFileBitForBit) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 12);
  CodesOptions codes = small_codes(data);
  codes.views = 3;
  ASSERT_TRUE(make_codes(codes, quiet()));
  const auto options = [&](const char* out) {
    ImageModelOptions model = small_model(data, data / out, 12);
    model.dropout = 0.1;
    model.unconditional = 0.3;
    return model;
  };
  EXPECT_TRUE(train_image_model(options("straight"), quiet()).finished);
  Stopper stopper(5);
  EXPECT_FALSE(train_image_model(options("stopped"), stopper.hooks).finished);
  EXPECT_TRUE(train_image_model(options("stopped"), quiet()).finished);
  EXPECT_EQ(bytes_of(data / "straight/model/model.safetensors"),
            bytes_of(data / "stopped/model/model.safetensors"));
}

TEST(TrainImageModel, WithoutHeldOutPicturesItSaysNothingOfThem) {
  const Folder data;
  write_pictures(data, 8, /*held_out=*/0);
  make_tokenizer(data, data / "tokenizer", 12);
  ASSERT_TRUE(make_codes(small_codes(data), quiet()));
  const TrainingResult result = train_image_model(small_model(data, data / "model", 1), quiet());
  EXPECT_FALSE(result.facts["evaluation"].contains("nats"));
  EXPECT_FALSE(result.facts["evaluation"].contains("nats_without_words"));
  EXPECT_TRUE(result.facts["evaluation"].contains("nats_train"));
}

TEST(TrainImageModel, RefusesARunWithoutAPictureAndWritesNothing) {
  const CodedFolder data;
  FeaturesOptions features;
  features.data = data.string();
  features.schedule = small_schedule(data / "features", 0.01, 3e-3);
  EXPECT_THROW(train_image_model(small_model(data, data / "model", 0.01), quiet()), UsageError);
  EXPECT_THROW(train_features(features, quiet()), UsageError);
  EXPECT_FALSE(fs::exists(data / "model") || fs::exists(data / "features"));
}

TEST(TrainFeatures, TellThePicturesThatTheySee) {
  const Folder data;
  write_pictures(data, 9);
  FeaturesOptions options;
  options.data = data.string();
  options.schedule = small_schedule(data / "features", 60, 3e-3);
  options.shift = 0;
  double style = 1;
  TrainingHooks hooks = quiet();
  ASSERT_TRUE(train_features(options, hooks).finished);
  std::ifstream curve(data / "features/curve.csv");
  std::string line, last;
  while (std::getline(curve, line)) last = line;
  std::sscanf(last.c_str(), "%*f,%*f,%*f,%*f,%lf", &style);
  EXPECT_LT(style, 0.05) << last;
}

TEST(PictureSet, NamesTheLineThatIsWrong) {
  const Folder data;
  write_pictures(data, 9);
  std::ofstream(data / "index.jsonl", std::ios::app) << "{\"style\": \"square\"}\n";
  try {
    PictureSet pictures(data.string());
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 10: expected a style"), std::string::npos)
        << error.what();
  }
}

TEST(Views, AreMovedAndMirrored) {
  const Folder data;
  write_pictures(data, 2);
  const PictureSet pictures(data.string());
  const PictureView views[] = {
      {.picture = 0}, {.picture = 0, .right = 1, .down = 2}, {.picture = 0, .mirrored = true}};
  const torch::Tensor drawn = render(pictures, views);
  EXPECT_TRUE(
      drawn[1].narrow(1, 2, 14).narrow(2, 1, 15).equal(drawn[0].narrow(1, 0, 14).narrow(2, 0, 15)));
  EXPECT_TRUE(drawn[1].narrow(1, 0, 2).eq(1).all().item<bool>()) << "what is uncovered is white";
  EXPECT_TRUE(drawn[2].equal(drawn[0].flip({2})));
}

}  // namespace
}  // namespace talon::train_image_test
