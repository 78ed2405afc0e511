#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/zstd.h"
#include "model/target.h"

// Image models in LlamaGen's layouts against PyTorch (tests/data/golden/images/record.py).
namespace talon {
namespace {

namespace fs = std::filesystem;

constexpr double kFloat32 = 1e-4;  // sums in another order, of logits of about 1 to 10

const fs::path kGolden = fs::path(TALON_TEST_DATA) / "golden/images";

fs::path unpack(const std::string& name) {
  const fs::path to = fs::path(testing::TempDir()) / "talon_pictures" / name;
  fs::create_directories(to.parent_path());
  std::ofstream(to, std::ios::binary) << read_zstd(kGolden / (name + ".zst"));
  return to;
}

template <typename T>
std::vector<T> numbers(const Checkpoint& file, const std::string& name) {
  const StoredTensor& tensor = file.require(name);
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// A .pt file as training scripts write it, whose grid the caller knows.
Checkpoint open_classes() {
  Checkpoint checkpoint = open_checkpoint(unpack("c2i.pt"));
  checkpoint.metadata["grid"] = 4;
  return checkpoint;
}

/// The folder that `talon train image model` writes.
Checkpoint open_words() {
  const fs::path folder = unpack("words/model.safetensors").parent_path();
  fs::copy_file(kGolden / "words/config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  return open_checkpoint(folder);
}

using MakeBackend = std::unique_ptr<Backend> (*)();
std::unique_ptr<Backend> reference() { return make_reference_backend(1); }
std::unique_ptr<Backend> cpu() {
  CpuOptions options;
  options.threads = 2;
  options.activations = Activations::bits16;  // float32 inputs of float weights
  return make_cpu_backend(options);
}

struct Recorded {
  Checkpoint (*open)();
  std::string golden;
  double bound;
};

/// The rows that predict codes, after a prompt and all codes but the last.
class Drawing {
 public:
  Drawing(const Recorded& recorded, MakeBackend make)
      : backend_(make()),
        golden_(open_checkpoint(unpack(recorded.golden))),
        checkpoint_(recorded.open()),
        model_(load_model(checkpoint_, *backend_)),
        cache_(*backend_, kv_shape(model_.config, 4, KvType::f32)),
        target_(model_, cache_, 64, {{FeatureTap::kFinalNorm}}) {}

  const Model& model() const { return model_; }
  const Checkpoint& golden() const { return golden_; }

  std::vector<TokenId> prompt(const std::string& name) const {
    std::vector<TokenId> ids = numbers<TokenId>(golden_, name);
    for (TokenId& id : ids) id += model_.config.vocabulary;
    return ids;
  }

  /// guidance: none at most 1.
  std::vector<float> logits(const std::string& prompt_name, float guidance = 0) {
    const std::vector<TokenId> own = prompt(prompt_name),
                               codes = numbers<TokenId>(golden_, "codes");
    std::vector<TokenId> tokens = own;
    tokens.insert(tokens.end(), codes.begin(), codes.end() - 1);
    KvSequence sequence = cache_.start({}, false);
    if (guidance > 1) sequence.pair(cache_.start({}, false), prompt("guide"));
    EXPECT_TRUE(sequence.reserve(static_cast<int>(tokens.size())));
    SequenceRows rows{.sequence = &sequence, .tokens = tokens, .parents = {}};
    rows.picture_prompt = static_cast<int>(own.size());
    rows.guidance = guidance;
    const ForwardResult result = target_.forward({&rows, 1});
    const int first = static_cast<int>(own.size()) - 1, count = static_cast<int>(codes.size());
    std::vector<float> logits(codes.size() * static_cast<std::size_t>(model_.config.vocabulary));
    backend_->download(result.logits.row_range(first, count), logits);
    features_.resize(codes.size() * static_cast<std::size_t>(model_.config.hidden));
    backend_->download(result.features.row_range(first, count), features_);
    return logits;
  }
  /// Of the last call.
  const std::vector<float>& features() const { return features_; }

  double distance(const std::string& name, const std::vector<float>& found) const {
    const auto expected = numbers<float>(golden_, name);
    EXPECT_EQ(expected.size(), found.size()) << name;
    double largest = 0;
    for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i)
      largest = std::max(largest, static_cast<double>(std::abs(expected[i] - found[i])));
    return largest;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Checkpoint golden_, checkpoint_;
  Model model_;
  KvCache cache_;
  Target target_;
  std::vector<float> features_;
};

class PicturesGolden : public testing::TestWithParam<int> {
 protected:
  Recorded recorded() const {
    return GetParam() == 0 ? Recorded{open_classes, "c2i.golden.safetensors", kFloat32}
                           : Recorded{open_words, "words/golden.safetensors", kFloat32};
  }
};

TEST_P(PicturesGolden, LogitsAndFeaturesAreThoseOfPyTorch) {
  for (const MakeBackend make : {&reference, &cpu}) {
    Drawing drawing(recorded(), make);
    const double bound = recorded().bound;
    EXPECT_LT(drawing.distance("guide_logits", drawing.logits("guide")), bound);
    EXPECT_LT(drawing.distance("logits", drawing.logits("prompt")), bound);
    EXPECT_LT(drawing.distance("final", drawing.features()), bound);
  }
}

TEST_P(PicturesGolden, GuidedLogitsAreThoseOfPyTorch) {
  Drawing drawing(recorded(), reference);
  const float scale = numbers<float>(drawing.golden(), "scale")[0];
  EXPECT_LT(drawing.distance("guided", drawing.logits("prompt", scale)), 5 * recorded().bound);
}

/// The arithmetic is u + s (c - u), each step rounded to float32 once.
TEST_P(PicturesGolden, GuidanceIsTheSameBitsOnEveryBackend) {
  for (const MakeBackend make : {&reference, &cpu}) {
    Drawing drawing(recorded(), make);
    const float scale = numbers<float>(drawing.golden(), "scale")[0];
    const std::vector<float> own = drawing.logits("prompt"), guide = drawing.logits("guide");
    std::vector<float> expected(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const float difference = own[i] - guide[i];
      const float scaled = scale * difference;
      expected[i] = guide[i] + scaled;
    }
    EXPECT_EQ(drawing.logits("prompt", scale), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PicturesGolden, testing::Values(0, 1), [](const auto& test) {
  return test.param == 0 ? std::string("TrainingFile") : std::string("Folder");
});

TEST(Pictures, PublishedSizesComeFromTensorsAndTheName) {
  const ModelConfig config = read_model_config(open_classes());
  EXPECT_EQ(config.vocabulary, 48);
  EXPECT_EQ(config.input_count(), 54);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.context, 17);
  Checkpoint named = open_checkpoint(unpack("c2i.pt"));
  named.path = "c2i_L_384.pt";
  EXPECT_EQ(read_model_config(named).image->columns, 24);
}

template <typename Change>
std::string refusal_of(Checkpoint (*open)(), const Change& change) {
  Checkpoint checkpoint = open();
  change(checkpoint);
  const auto backend = make_reference_backend(1);
  try {
    load_model(checkpoint, *backend);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pictures, HostileModelsAreRefusedByName) {
  const auto contains = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto tensor = [](Checkpoint& file, const std::string& name) -> StoredTensor& {
    return *std::ranges::find(file.tensors, name, &StoredTensor::name);
  };
  EXPECT_EQ(refusal_of(open_classes, [](Checkpoint&) {}), "no error");
  contains(refusal_of(open_classes, [](Checkpoint& file) { file.metadata = Json::object(); }),
           "expected the pixels of a picture's side in the file's name");
  contains(refusal_of(open_classes, [](Checkpoint& file) { file.metadata["grid"] = 0; }),
           "\"grid\": expected an integer in 1..256, found 0");
  contains(refusal_of(open_classes,
                      [&](Checkpoint& file) {
                        tensor(file, "layers.0.attention.wqkv.weight").shape = {100, 128};
                      }),
           "\"layers.0.attention.wqkv.weight\": expected queries of 128 rows");
  contains(refusal_of(open_classes,
                      [&](Checkpoint& file) {
                        tensor(file, "cls_embedding.embedding_table.weight").name = "gone";
                      }),
           "\"cls_embedding.embedding_table.weight\"");
  contains(refusal_of(open_classes,
                      [&](Checkpoint& file) {
                        tensor(file, "layers.1.attention.wo.weight").shape = {64, 256};
                      }),
           "\"layers.1.attention.wo.weight\": expected [128, 128]");
  contains(refusal_of(open_classes,
                      [&](Checkpoint& file) {
                        tensor(file, "norm.weight").name = "cls_embedding.cap_proj.fc1.weight";
                      }),
           "found one of captions");
  contains(refusal_of(open_words, [](Checkpoint& file) { file.metadata["grid"] = {3}; }), "grid");
  contains(refusal_of(open_words,
                      [](Checkpoint& file) {
                        file.metadata["grid"] = {3, 100000};
                      }),
           "grid");
  contains(refusal_of(open_words, [](Checkpoint& file) { file.metadata["prefix_rotation"] = "x"; }),
           "\"prefix_rotation\": expected zero or identity");
  contains(refusal_of(open_words, [](Checkpoint& file) { file.metadata["prompt_rows"] = 10; }),
           "\"cls_embedding.embedding_table.weight\": expected [10, 64], found [9, 64]");
  contains(
      refusal_of(open_words, [](Checkpoint& file) { file.metadata["num_attention_heads"] = 32; }),
      "expected heads of a multiple of 4, which turn by row and column, found 2");
}

}  // namespace
}  // namespace talon
