#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "backend/index_list.h"
#include "draft/head/head_network.h"
#include "draft/head/head_weights.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "model/row_layout.h"

namespace talon::eagle_variants_test {
namespace {

constexpr int kHidden = 64, kHeads = 8, kHeadDim = 8, kRows = 5;
constexpr double kTolerance = 1e-5;

using Vector = std::vector<double>;
using Change = std::function<void(HeadFiles&)>;

/// The formulas of docs/methods.md 2.1 and 2.2 and the norms of other makers' heads, one position
/// after the other, in double: no batches, no cache, no fused operations.
class PlainHead {
 public:
  explicit PlainHead(const HeadFiles& files)
      : files_(files), eagle3_(has("midlayer.hidden_norm.weight")) {}

  /// Outputs of rows 0 .. kRows - 1 that come from the target, then of one row that continues from
  /// the last output.
  std::vector<Vector> run(const std::vector<TokenId>& tokens, const std::vector<Vector>& features) {
    std::vector<Vector> outputs;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const bool from_target = row < features.size();
      outputs.push_back(
          run_row(tokens[row], from_target ? features[row] : outputs.back(), from_target));
    }
    return outputs;
  }

 private:
  bool has(const std::string& name) const { return files_.tensors.contains(name); }
  bool flag(const char* key) const { return files_.config.value(key, false); }
  std::string layer(const std::string& name) const {
    return (eagle3_ ? "midlayer." : layer_prefix()) + name;
  }
  std::string layer_prefix() const {
    return has("transformer.mlp.up_proj.weight") ? "transformer." : "layers.0.";
  }

  Vector vector(const std::string& name) const {
    const auto stored = files_.values(name);
    return {stored.begin(), stored.end()};
  }
  Vector product(const std::string& name, const Vector& x) const {
    const Vector w = vector(name + ".weight");
    const std::size_t rows = w.size() / x.size();
    Vector y = has(name + ".bias") ? vector(name + ".bias") : Vector(rows, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
    }
    return y;
  }
  Vector normed(const Vector& x, const std::string& name) const {
    if (!has(name)) return x;
    return normed(x, vector(name));
  }
  Vector normed(const Vector& x, const Vector& weight) const {
    double square = 0;
    for (const double value : x) square += value * value;
    const double eps = files_.config.value("rms_norm_eps", 1e-6);
    Vector y = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] *= weight[i] / std::sqrt(square / static_cast<double>(x.size()) + eps);
    }
    return y;
  }
  static Vector joined(Vector a, const Vector& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static Vector sum(Vector a, const Vector& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  /// Of a value of the gate.
  double activated(double x) const {
    const Json& config = files_.config;
    const std::string name =
        config.value("hidden_act", config.value("hidden_activation", std::string("silu")));
    if (name == "silu") return x / (1 + std::exp(-x));
    return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
  }

  Vector embedding(TokenId token) const {
    std::vector<float> row(kHidden);
    EagleTarget& target = eagle_target();
    const auto buffer = target.backend->allocate(1, kHidden);
    IndexList id(*target.backend);
    target.backend->embed(*target.model.embedding, id.put(std::span(&token, 1)), buffer.view());
    target.backend->download(buffer.view(), row);
    return {row.begin(), row.end()};
  }

  Vector fuse_taps(Vector taps) const {
    taps = normed(taps, "input_norm.weight");
    if (has("fc_norm.0.weight")) {
      Vector all;
      for (int tap = 0; tap < 3; ++tap) {
        const auto begin = taps.begin() + tap * kHidden;
        all = joined(all, normed(Vector(begin, begin + kHidden),
                                 "fc_norm." + std::to_string(tap) + ".weight"));
      }
      taps = all;
    }
    return product("fc", taps);
  }

  Vector run_row(TokenId token, const Vector& feature, bool from_target) {
    Vector residual, input;
    if (eagle3_) {
      residual = from_target ? fuse_taps(feature) : feature;
      const Vector hidden = normed(residual, "midlayer.hidden_norm.weight");
      input = joined(normed(embedding(token), "midlayer.input_layernorm.weight"), hidden);
      if (flag("norm_before_residual")) residual = hidden;
    } else {
      residual = product(has("fusion_fc.weight") ? "fusion_fc" : "fc",
                         joined(normed(embedding(token), "embedding_layernorm.weight"),
                                normed(feature, "hnorm.weight")));
      input = normed(residual, layer("input_layernorm.weight"));
    }
    const Vector h = sum(residual, attend(input));
    const Vector n = normed(h, layer("post_attention_layernorm.weight"));
    Vector gate = product(layer("mlp.gate_proj"), n);
    const Vector up = product(layer("mlp.up_proj"), n);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = activated(gate[i]) * up[i];
    const Vector out = sum(h, product(layer("mlp.down_proj"), gate));
    return flag("norm_output") ? normed(out, "norm.weight") : out;
  }

  Vector attend(const Vector& input) {
    const auto position = static_cast<double>(keys_.size());
    Vector q = product(layer("self_attn.q_proj"), input),
           k = product(layer("self_attn.k_proj"), input);
    turn(q, layer("self_attn.q_norm.weight"), position);
    turn(k, layer("self_attn.k_norm.weight"), position);
    keys_.push_back(k);
    values_.push_back(product(layer("self_attn.v_proj"), input));
    const std::size_t per_key = q.size() / k.size();
    Vector attended(q.size(), 0.0);
    for (std::size_t head = 0; head < kHeads; ++head) {
      Vector p;
      double total = 0;
      for (const Vector& key : keys_) {
        double dot = 0;
        for (std::size_t i = 0; i < kHeadDim; ++i)
          dot += q[head * kHeadDim + i] * key[head / per_key * kHeadDim + i];
        p.push_back(std::exp(dot / std::sqrt(static_cast<double>(kHeadDim))));
        total += p.back();
      }
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::size_t i = 0; i < kHeadDim; ++i) {
          attended[head * kHeadDim + i] += p[j] / total * values_[j][head / per_key * kHeadDim + i];
        }
      }
    }
    return product(layer("self_attn.o_proj"), attended);
  }

  /// Norm of each head, if any, then the rotation of as many columns as turn.
  void turn(Vector& x, const std::string& norm, double position) const {
    const Json& config = files_.config;
    const auto columns =
        static_cast<std::size_t>(config.value("partial_rotary_factor", 1.0) * kHeadDim);
    const Json divisors =
        config.value("rope_scaling", Json::object()).value("short_factor", Json());
    for (std::size_t head = 0; head < x.size(); head += kHeadDim) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(head);
      const Vector v = normed(Vector(begin, begin + kHeadDim), norm);
      std::copy(v.begin(), v.end(), begin);
      for (std::size_t i = 0; i < columns / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(columns);
        double angle = position * std::pow(config.value("rope_theta", 10000.0), exponent);
        if (divisors.is_array()) angle /= divisors[i].get<double>();
        const double a = v[i], b = v[i + columns / 2];
        x[head + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head + i + columns / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  const HeadFiles& files_;
  bool eagle3_;
  std::vector<Vector> keys_, values_;
};

std::vector<float> random_values(std::size_t count, unsigned seed, float around = 0) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = around + (static_cast<float>(engine() % 2001) - 1000) / 2000;
  return values;
}

/// What Talon's network makes of the same rows.
std::vector<Vector> run_network(const HeadWeights& head, const std::vector<TokenId>& tokens,
                                const std::vector<float>& features) {
  Backend& backend = *head.backend;
  const KvShape page{1, head.config.kv_heads, head.config.head_dim, 1, KvType::f32};
  KvCache cache(backend, within_budget(page, std::size_t{1} << 20));
  KvSequence pairs = cache.start({}, false);
  EXPECT_TRUE(pairs.reserve(kRows + 1));
  HeadNetwork network(head, {}, kRows, 64);
  const auto input = backend.allocate(kRows, head.config.feature_width);
  const auto output = backend.allocate(kRows + 1, kHidden);
  backend.upload(features, input.view());
  SequenceRows rows{&pairs, tokens, {}};
  AttentionLayout all, part;
  lay_out_rows(std::span(&rows, 1), all);
  part = all;
  part.rows.resize(kRows);
  network.forward({std::span(tokens).first(kRows), &part, &cache.store(), input.view(), true,
                   output.rows(kRows)});
  part.rows = {all.rows.back()};
  network.forward({std::span(tokens).last(1), &part, &cache.store(),
                   output.view().row_range(kRows - 1, 1), false,
                   output.view().row_range(kRows, 1)});
  std::vector<float> values((kRows + 1) * kHidden);
  backend.download(output.view(), values);
  std::vector<Vector> outputs;
  for (auto row = values.begin(); row != values.end(); row += kHidden)
    outputs.emplace_back(row, row + kHidden);
  return outputs;
}

struct Variant {
  const char* name;
  const char* golden_head;
  Change change;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

void add_vector(HeadFiles& files, const std::string& name, std::size_t size, float around) {
  files.add(name, {static_cast<std::int64_t>(size)},
            random_values(size, static_cast<unsigned>(name.size()), around));
}

void add_layer_norms(HeadFiles& files) {
  files.config["speculators_model_type"] = "eagle";
  files.config["layernorms"] = true;
  files.config["fusion_bias"] = true;
  files.config["transformer_layer_config"] = files.config;
  files.rename_prefix("fc.", "fusion_fc.");
  files.rename_prefix("layers.0.", "transformer.");
  files.tensors.erase("embed_tokens.weight");
  add_vector(files, "embedding_layernorm.weight", kHidden, 1);
  add_vector(files, "transformer.input_layernorm.weight", kHidden, 1);
  add_vector(files, "pre_lm_head_layernorm.weight", kHidden, 1);
}

/// Those that vLLM's first layout usually skips.
void apply_norms_of_vllm(HeadFiles& files) {
  files.config["model"] = files.config;
  files.config["model_type"] = "eagle";
  files.config["model"]["skip_prenorm"] = false;
  files.config["model"]["skip_output_norm"] = false;
  files.config["norm_output"] = true;  // what it comes to, for the formulas
  add_vector(files, "layers.0.input_layernorm.weight", kHidden, 1);
  add_vector(files, "norm.weight", kHidden, 1);
}

void add_qkv_biases(HeadFiles& files, const std::string& attention) {
  add_vector(files, attention + "q_proj.bias", 64, 0);
  add_vector(files, attention + "k_proj.bias", 32, 0);
  add_vector(files, attention + "v_proj.bias", 32, 0);
}

const Variant kVariants[] = {
    {"Eagle1", "eagle1_head", [](HeadFiles&) {}},
    {"Eagle1WithoutBias", "eagle1_head",
     [](HeadFiles& f) { f.tensors.erase("fc.bias"), f.config["bias"] = false; }},
    {"Eagle1WithQkvBiases", "eagle1_head",
     [](HeadFiles& f) { add_qkv_biases(f, "layers.0.self_attn."), f.config["qkv_bias"] = true; }},
    {"Eagle1WithAnotherRopeBase", "eagle1_head",
     [](HeadFiles& f) { f.config["rope_theta"] = 500000.0; }},
    {"Eagle1WithLayerNorms", "eagle1_head", add_layer_norms},
    {"Eagle1WithNormsOfVllm", "eagle1_head", apply_norms_of_vllm},
    {"Eagle3ThatTurnsAPartOfEachHead", "eagle3_head",
     [](HeadFiles& f) { f.config["partial_rotary_factor"] = 0.5; }},
    {"Eagle3WithLongRope", "eagle3_head",
     [](HeadFiles& f) {
       f.config["rope_scaling"] = {{"rope_type", "longrope"},
                                   {"factor", 1.0},
                                   {"original_max_position_embeddings", 512},
                                   {"short_factor", {1.5, 0.5, 3.0, 2.0}},
                                   {"long_factor", {9.0, 9.0, 9.0, 9.0}}};
     }},
    {"Eagle3", "eagle3_head", [](HeadFiles&) {}},
    {"Eagle3WithTwoKvHeads", "eagle3_head_fullvocab", [](HeadFiles&) {}},
    {"Eagle3NormBeforeResidual", "eagle3_head",
     [](HeadFiles& f) { f.config["norm_before_residual"] = true; }},
    {"Eagle3NormOutput", "eagle3_head", [](HeadFiles& f) { f.config["norm_output"] = true; }},
    {"Eagle3NormBeforeFc", "eagle3_head",
     [](HeadFiles& f) {
       f.config["norm_before_fc"] = true, add_vector(f, "input_norm.weight", 3 * kHidden, 1);
     }},
    {"Eagle3NormPerTap", "eagle3_head",
     [](HeadFiles& f) {
       f.config["fc_norm"] = true;
       for (const char* tap : {"0", "1", "2"}) {
         f.add(std::string("fc_norm.") + tap + ".weight", {kHidden},
               random_values(kHidden, static_cast<unsigned>(*tap), 1));
       }
     }},
    {"Eagle3WithFcBias", "eagle3_head",
     [](HeadFiles& f) { f.config["bias"] = true, add_vector(f, "fc.bias", kHidden, 0); }},
    {"Eagle1WithGelu", "eagle1_head",
     [](HeadFiles& f) { f.config["hidden_act"] = "gelu_pytorch_tanh"; }},
    {"Eagle3WithGeluByGemmasKey", "eagle3_head",
     [](HeadFiles& f) {
       f.config.erase("hidden_act");
       f.config["hidden_activation"] = "gelu_pytorch_tanh";
     }},
    {"Eagle3WithBiasesOfTheFeedForward", "eagle3_head",
     [](HeadFiles& f) {
       add_vector(f, "midlayer.mlp.gate_proj.bias", 172, 0);
       add_vector(f, "midlayer.mlp.up_proj.bias", 172, 0);
       add_vector(f, "midlayer.mlp.down_proj.bias", kHidden, 0);
     }},
    {"Eagle3WithBiasesAndHeadNorms", "eagle3_head",
     [](HeadFiles& f) {
       add_qkv_biases(f, "midlayer.self_attn.");
       add_vector(f, "midlayer.self_attn.o_proj.bias", kHidden, 0);
       add_vector(f, "midlayer.self_attn.q_norm.weight", kHeadDim, 1);
       add_vector(f, "midlayer.self_attn.k_norm.weight", kHeadDim, 1);
     }},
};

class HeadVariants : public testing::TestWithParam<Variant> {};

TEST_P(HeadVariants, TheNetworkComputesTheFormulas) {
  HeadFiles files = HeadFiles::read(GetParam().golden_head);
  GetParam().change(files);
  const test::TemporaryFolder folder;
  files.write(folder);
  const HeadWeights head =
      load_head(open_checkpoint(folder.path()), eagle_target().model, {WeightLayout::f32, {}});
  const std::vector<TokenId> tokens = {403, 407, 261, 378, 432, 383};
  const auto width = static_cast<std::size_t>(head.config.feature_width);
  const std::vector<float> features = random_values(kRows * width, 7);
  std::vector<Vector> rows;
  for (auto row = features.begin(); row != features.end(); row += head.config.feature_width) {
    rows.emplace_back(row, row + head.config.feature_width);
  }
  const auto expected = PlainHead(files).run(tokens, rows);
  const auto ours = run_network(head, tokens, features);
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t row = 0; row < ours.size(); ++row) {
    for (std::size_t i = 0; i < kHidden; ++i) {
      EXPECT_NEAR(ours[row][i], expected[row][i],
                  kTolerance * std::max(1.0, std::abs(expected[row][i])))
          << "row " << row;
    }
  }
}

std::string variant_name(const testing::TestParamInfo<Variant>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, HeadVariants, testing::ValuesIn(kVariants), variant_name);

}  // namespace
}  // namespace talon::eagle_variants_test
