#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/test_pictures.h"
#include "model/target.h"

// Image models of all layouts against PyTorch (tests/data/golden/images/record.py).
namespace talon::pictures_golden_test {
namespace {

namespace fs = std::filesystem;

using test::numbers;

constexpr double kFloat32 = 1e-4;  // sums in another order, of logits of about 1 to 10

fs::path unpack(const std::string& name) { return test::unpack_picture("talon_pictures", name); }

/// A .pt file as training scripts write it, whose grid the caller knows.
Checkpoint open_classes() {
  Checkpoint checkpoint = open_checkpoint(unpack("c2i.pt"));
  checkpoint.metadata["grid"] = 4;
  return checkpoint;
}

/// A .pt file of a model of captions, whose name tells a grid that is not the tiny one's.
Checkpoint open_captions() {
  Checkpoint checkpoint = open_checkpoint(unpack("t2i_256.pt"));
  checkpoint.metadata["grid"] = 4;
  return checkpoint;
}

template <std::size_t size>
struct Name {
  constexpr Name(const char (&text)[size]) { std::copy_n(text, size, value); }
  char value[size];
};

template <Name name>
Checkpoint open_folder() {
  return open_checkpoint(unpack(std::string(name.value) + "/model.safetensors").parent_path());
}
/// The folder that `talon train image model` writes.
constexpr auto open_words = open_folder<"words">;

using MakeBackend = std::unique_ptr<Backend> (*)();
std::unique_ptr<Backend> reference() { return make_reference_backend(1); }
std::unique_ptr<Backend> cpu() {
  CpuOptions options;
  options.threads = 2;
  options.activations = Activations::bits16;  // float32 inputs of float weights
  return make_cpu_backend(options);
}

struct Recorded {
  std::string name;
  Checkpoint (*open)();
  std::string golden;
  double bound;
};
void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.name; }

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
    std::vector<TokenId> ids;
    if (is_caption()) {  // as many places at the end as the caption has rows
      for (auto i = golden_.require("features").shape[0]; i > 0; --i)
        ids.push_back(model_.config.input_count() - static_cast<TokenId>(i));
      return ids;
    }
    ids = numbers<TokenId>(golden_, name);
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
    if (guidance > 1) {
      const std::vector<TokenId> guide = prompt("guide");
      const auto lead = static_cast<int>(own.size() - guide.size());
      sequence.pair(cache_.start({}, false), guide, lead);
    }
    EXPECT_TRUE(sequence.reserve(static_cast<int>(tokens.size())));
    SequenceRows rows{.sequence = &sequence, .tokens = tokens, .parents = {}};
    if (model_.config.rope.grid_columns > 0) rows.picture_prompt = static_cast<int>(own.size());
    rows.guidance = guidance;
    std::vector<float> vectors;
    if (is_caption() && prompt_name == "prompt") {
      vectors = project_caption(model_, numbers<float>(golden_, "features"),
                                static_cast<int>(own.size()));
    }
    rows.vectors = vectors;
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
  bool is_caption() const { return model_.config.image->prompt == ImagePlan::Prompt::caption; }

  std::unique_ptr<Backend> backend_;
  Checkpoint golden_, checkpoint_;
  Model model_;
  KvCache cache_;
  Target target_;
  std::vector<float> features_;
};

class PicturesGolden : public testing::TestWithParam<Recorded> {
 protected:
  const Recorded& recorded() const { return GetParam(); }
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

INSTANTIATE_TEST_SUITE_P(
    Layouts, PicturesGolden,
    testing::Values(
        Recorded{"TrainingFile", open_classes, "c2i.golden.safetensors", kFloat32},
        Recorded{"Folder", open_words, "words/golden.safetensors", kFloat32},
        Recorded{"Captions", open_captions, "t2i.golden.safetensors", kFloat32},
        Recorded{"Lantern", open_folder<"lantern">, "t2i.golden.safetensors", kFloat32},
        Recorded{"Chameleon", open_folder<"anole">, "anole/golden.safetensors", kFloat32},
        Recorded{"Lumina", open_folder<"lumina">, "lumina/golden.safetensors", kFloat32},
        Recorded{"Janus", open_folder<"janus">, "janus/golden.safetensors", kFloat32}),
    [](const auto& test) { return test.param.name; });

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
                        for (const char* layer : {"layers.0.", "layers.1."})
                          tensor(file, layer + std::string("attention.wqkv.weight")).name =
                              layer + std::string("attention.wq.weight");
                        file.by_name.clear();
                      }),
           "the folder with config.json that transformers' scripts make of the files of Llama and "
           "Chameleon, found \"layers.0.attention.wq.weight\"");
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

/// What is said of a checkpoint of which one thing was changed.
struct Hostile {
  Checkpoint (*open)();
  std::string what;  // a key of config.json or a tensor
  Json value;        // of the key, or the tensor's shape; null: the tensor is gone
  std::string said;
};

TEST(Pictures, HostileModelsOfCaptionsAndTextsAreRefusedByName) {
  const auto lantern = open_folder<"lantern">;
  const auto anole = open_folder<"anole">, lumina = open_folder<"lumina">;
  const auto janus = open_folder<"janus">;
  Json map = anole().metadata["vocabulary_map"];
  map["IMGIMGDZ"] = 5;
  Json gap = anole().metadata["vocabulary_map"];
  gap.erase("IMGIMGDZ");
  const std::string caption = "cls_embedding.", q_norm = "model.layers.1.self_attn.q_norm.";
  const Hostile cases[] = {
      {open_captions, caption + "cap_proj.fc1.weight", nullptr, "cap_proj.fc1.weight\""},
      {open_captions, caption + "cap_proj.fc2.weight", {64, 256}, "expected [128, 128]"},
      {open_captions, caption + "uncond_embedding", {240}, "expected a matrix with 1 to"},
      {lantern, "block_size", 15, "\"block_size\": expected the cells of a square, found 15"},
      {lantern, "cls_token_num", 120, "\"cls_token_num\": expected the 10 rows of"},
      {lantern, "caption_dim", 2048, "\"caption_dim\": expected the 24 columns of"},
      {lantern, "input_type", "c2i", "\"input_type\": expected t2i"},
      {lantern, "num_attention_heads", 3, "expected a divisor of the width 128"},
      {lantern, "model.layers.0.self_attn.v_proj.weight", nullptr, "self_attn.v_proj.weight"},
      {anole, "tie_word_embeddings", true, "\"tie_word_embeddings\": expected false"},
      {anole, "vocab_size", 31, "\"vocab_size\": expected at least 32 tokens"},
      {anole, "vocab_size", 41, "expected [41, 64], found [40, 64]"},
      {anole, "vocabulary_map", map, "\"vocabulary_map\": expected IMGIMGDZ at 7"},
      {anole, "vocabulary_map", gap, "\"vocabulary_map\": expected codes without a gap"},
      {anole, "vocabulary_map", {{"IMGIMGAZ", 4}, {"<s>", "x"}}, "\"<s>\": expected an integer"},
      {anole, "vocabulary_map", Json::object(), "\"vocabulary_map\": expected codes"},
      {anole, "max_position_embeddings", 15, "expected at least 16, for a picture of 2 by 4"},
      {anole, "grid", {2, 0}, "grid"},
      {anole, q_norm + "weight", {64}, q_norm + "weight\": expected [4, 16]"},
      {anole, q_norm + "weight", {3, 16}, q_norm + "weight\": expected [4, 16]"},
      {anole, q_norm + "bias", nullptr, q_norm + "bias"},
      {lumina, "grid", {3, 4}, "\"grid\": expected even numbers"},
      {lumina, "grid", {32, 4}, "\"vocab_size\": expected at least 50 tokens"},
      {janus, "gen_embed.weight", {192}, "\"gen_embed.weight\": expected a matrix"},
      {janus, "gen_aligner.layers.2.bias", nullptr, "gen_aligner.layers.2.bias"},
      {janus, "gen_head.output_mlp_projector.weight", {0, 64}, "expected 1 to"},
      {janus, "gen_head.vision_head.weight", {48, 24}, "expected [24, 48], found [48, 24]"},
      {janus, "grid", {100, 100}, "\"max_position_embeddings\": expected at least 10008"},
  };
  for (const Hostile& hostile : cases) {
    EXPECT_EQ(refusal_of(hostile.open, [](Checkpoint&) {}), "no error");
    const std::string said = refusal_of(hostile.open, [&](Checkpoint& file) {
      const auto tensor = std::ranges::find(file.tensors, hostile.what, &StoredTensor::name);
      if (tensor == file.tensors.end()) {
        file.metadata[hostile.what] = hostile.value;
      } else if (hostile.value.is_null()) {
        tensor->name = "gone";
        file.by_name.clear();
      } else {
        tensor->shape = hostile.value.get<std::vector<std::int64_t>>();
      }
    });
    EXPECT_NE(said.find(hostile.said), std::string::npos) << hostile.what << ": " << said;
  }
}

/// Reading fewer would change every picture, and nobody would know.
TEST(Pictures, AlignersOfMoreLayersAreRefused) {
  const std::string said = refusal_of(open_folder<"janus">, [](Checkpoint& file) {
    StoredTensor third = file.require("gen_aligner.layers.2.weight");
    third.name = "gen_aligner.layers.4.weight";
    file.tensors.push_back(std::move(third));
    file.by_name.clear();
  });
  EXPECT_NE(said.find("expected two layers of the aligner, found more"), std::string::npos) << said;
}

std::vector<float> values_of(Backend& backend, const Buffer& buffer) {
  const View view = buffer.view();
  std::vector<float> values(static_cast<std::size_t>(view.rows) *
                            static_cast<std::size_t>(view.cols));
  backend.download(view, values);
  return values;
}

/// The tiny Lumina-mGPT with `parts` LayerNorms in the place of one for each head.
fs::path folder_of_shared_norms(int parts) {
  const fs::path file =
      test::unpack_picture(fmt::format("talon_pictures_{}", parts), "lumina/model.safetensors");
  test::share_head_norms(file, parts);
  return file.parent_path();
}

/// As the published Lumina-mGPT has it, which was trained as one part.
TEST(Pictures, HeadsOfAPartShareALayerNorm) {
  const auto backend = make_reference_backend(1);
  const Model model = load_model(open_folder<"lumina">(), *backend);
  const auto heads = static_cast<std::size_t>(model.config.heads);
  const auto width = static_cast<std::size_t>(model.config.head_dim);
  for (const std::size_t parts : {std::size_t{1}, std::size_t{2}}) {
    const fs::path folder = folder_of_shared_norms(static_cast<int>(parts));
    const Model shared = load_model(open_checkpoint(folder), *backend);
    for (const auto norm : {&LayerWeights::q_norm, &LayerWeights::q_norm_bias,
                            &LayerWeights::k_norm, &LayerWeights::k_norm_bias}) {
      const std::vector<float> rows = values_of(*backend, model.layers[1].*norm);
      std::vector<float> expected;
      for (std::size_t head = 0; head < heads; ++head) {
        const auto row = std::span(rows).subspan(head / (heads / parts) * width, width);
        expected.insert(expected.end(), row.begin(), row.end());
      }
      EXPECT_EQ(values_of(*backend, shared.layers[1].*norm), expected) << parts;
    }
  }
}

/// Chameleon of 34B: a norm behind each half instead of before it, under the same name.
TEST(Pictures, NormsOfSwinStandBehindTheHalvesOfALayer) {
  const auto backend = make_reference_backend(1);
  Checkpoint folder = open_folder<"anole">();
  const Model before = load_model(folder, *backend);
  folder.metadata["swin_norm"] = true;
  const Model behind = load_model(folder, *backend);
  EXPECT_FALSE(behind.config.plans[0].pre_norms);
  EXPECT_TRUE(behind.config.plans[0].post_norms);
  const LayerWeights& layer = behind.layers[1];
  EXPECT_FALSE(layer.attention_norm || layer.ffn_norm);
  EXPECT_EQ(values_of(*backend, layer.post_attention_norm),
            values_of(*backend, before.layers[1].attention_norm));
  EXPECT_EQ(values_of(*backend, layer.post_ffn_norm),
            values_of(*backend, before.layers[1].ffn_norm));
}

TEST(Pictures, CodesOfAVocabularyTheyShareAreTheOnlyAnswers) {
  const ModelConfig config = read_model_config(open_folder<"lumina">());
  EXPECT_EQ(config.vocabulary, 25);
  EXPECT_EQ(config.input_count(), 25 + 40);
  EXPECT_EQ(config.image->answer_tokens(), 9);
  EXPECT_EQ(config.image->forced(4), 24);
  EXPECT_EQ(config.image->forced(5), -1);
  EXPECT_EQ(config.image->prompt_tokens, 64 - 9);
  Checkpoint named = open_folder<"lumina">();
  named.metadata["model_type"] = "chameleon";
  EXPECT_EQ(read_model_config(named).vocabulary, 24);
  named.metadata["architectures"] = {"ChameleonXLLMXForConditionalGeneration"};
  EXPECT_EQ(read_model_config(named).vocabulary, 25);
  Checkpoint published = open_folder<"lumina">();
  published.metadata.erase("vocabulary_map");
  published.metadata.erase("grid");
  published.metadata["vocab_size"] = 65536;
  published.metadata["max_position_embeddings"] = 10240;
  const ModelConfig whole = read_model_config(published);
  EXPECT_EQ(whole.vocabulary, 8193);
  EXPECT_EQ(whole.image->answer_tokens(), 48 * 49 - 1);
  EXPECT_EQ(whole.image->stored_row_end, 8803);
  const std::pair<const char*, int> sides[] = {
      {"Lumina-mGPT-34B-512", 32}, {"Lumina-mGPT-7B-768-Omni", 48}, {"Lumina-mGPT-7B-1024", 64}};
  for (const auto& [name, side] : sides) {
    published.path = fs::path("models") / name;
    const ModelConfig named_size = read_model_config(published);
    EXPECT_EQ(named_size.image->columns, side) << name;
    EXPECT_EQ(named_size.image->rows, side) << name;
  }
}

}  // namespace
}  // namespace talon::pictures_golden_test
