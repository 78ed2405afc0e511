#include "blocks_formulas.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "eagle_run.h"

namespace talon::block_formulas {
namespace {

using Numbers = std::vector<double>;

constexpr std::size_t kWidth = 64, kRank = 16, kHeadDim = 8, kHeads = 8;

Numbers numbers_of(const HeadFiles& files, const std::string& name) {
  const std::vector<float> values = files.values(name);
  return {values.begin(), values.end()};
}

Numbers row_of(const HeadFiles& files, const std::string& name, TokenId row) {
  const Numbers all = numbers_of(files, name);
  const auto cols = static_cast<std::ptrdiff_t>(files.tensors.at(name).shape[1]);
  return {all.begin() + row * cols, all.begin() + (row + 1) * cols};
}

/// matrix * x.
Numbers times(const Numbers& matrix, const Numbers& x) {
  Numbers product(matrix.size() / x.size());
  for (std::size_t i = 0; i < product.size(); ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) product[i] += matrix[i * x.size() + k] * x[k];
  }
  return product;
}

Numbers sum(Numbers a, const Numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Numbers concatenated(Numbers a, const Numbers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double gelu(double x) {
  return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
}

/// RMSNorm of each run of as many numbers as there are weights.
Numbers normed(Numbers x, const Numbers& weight) {
  for (std::size_t first = 0; first < x.size(); first += weight.size()) {
    double squares = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) squares += x[first + i] * x[first + i];
    const double rms = std::sqrt(squares / static_cast<double>(weight.size()) + 1e-5);
    for (std::size_t i = 0; i < weight.size(); ++i) x[first + i] *= weight[i] / rms;
  }
  return x;
}

/// The rotation of each head at a position.
Numbers turned(Numbers x, std::size_t position) {
  constexpr std::size_t kHalf = kHeadDim / 2;
  for (std::size_t first = 0; first < x.size(); first += kHeadDim) {
    for (std::size_t i = 0; i < kHalf; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(kHalf));
      const double a = x[first + i], b = x[first + i + kHalf];
      x[first + i] = a * std::cos(angle) - b * std::sin(angle);
      x[first + i + kHalf] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return x;
}

/// One layer of the block's transformer.
class Layer {
 public:
  Layer(const HeadFiles& files, std::string prefix) : files_(files), prefix_(std::move(prefix)) {}

  /// x: of each place.
  void run(const std::vector<Numbers>& context, std::vector<Numbers>& x) {
    for (const Numbers& c : context) add_key(c);
    for (const Numbers& e : x) add_key(normed(e, part("input_layernorm")));
    for (std::size_t place = 0; place < x.size(); ++place) {
      Numbers& e = x[place];
      const Numbers q = times(part("self_attn.q_proj"), normed(e, part("input_layernorm")));
      const Numbers seen =
          attend(turned(normed(q, part("self_attn.q_norm")), context.size() + place));
      e = sum(e, times(part("self_attn.o_proj"), seen));
      const Numbers h = normed(e, part("post_attention_layernorm"));
      Numbers gate = times(part("mlp.gate_proj"), h);
      const Numbers up = times(part("mlp.up_proj"), h);
      const bool is_silu = files_.config.at("hidden_act") == "silu";
      for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = (is_silu ? gate[i] * sigmoid(gate[i]) : gelu(gate[i])) * up[i];
      e = sum(e, times(part("mlp.down_proj"), gate));
    }
  }

 private:
  Numbers part(const std::string& name) const {
    return numbers_of(files_, prefix_ + name + ".weight");
  }
  void add_key(const Numbers& x) {
    const Numbers k = normed(times(part("self_attn.k_proj"), x), part("self_attn.k_norm"));
    keys_.push_back(turned(k, keys_.size()));
    values_.push_back(times(part("self_attn.v_proj"), x));
  }
  /// Every row sees all of them; two heads share keys.
  Numbers attend(const Numbers& q) const {
    Numbers out(q.size());
    for (std::size_t head = 0; head < kHeads; ++head) {
      const std::size_t own = head * kHeadDim, shared = head / 2 * kHeadDim;
      Numbers weights;
      for (const Numbers& k : keys_) {
        double product = 0;
        for (std::size_t i = 0; i < kHeadDim; ++i) product += q[own + i] * k[shared + i];
        weights.push_back(std::exp(product / std::sqrt(static_cast<double>(kHeadDim))));
      }
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::size_t row = 0; row < weights.size(); ++row) {
        for (std::size_t i = 0; i < kHeadDim; ++i)
          out[own + i] += weights[row] / total * values_[row][shared + i];
      }
    }
    return out;
  }

  const HeadFiles& files_;
  std::string prefix_;
  std::vector<Numbers> keys_, values_;
};

}  // namespace

Formulas::Formulas(const HeadFiles& files, MarkovKind kind, const std::vector<TokenId>& text,
                   TokenId root)
    : files_(files), kind_(kind) {
  const FeaturedText shown = featured(text, {{1}, {2}, {4}});  // what layers 0, 1 and 3 put out
  std::vector<Numbers> context;
  for (int row = 0; row < static_cast<int>(text.size()); ++row) {
    std::vector<float> feature(3 * kWidth);
    eagle_target().backend->download(shown.features.view().row_range(row, 1), feature);
    const Numbers fused =
        times(numbers_of(files, "fc.weight"), Numbers(feature.begin(), feature.end()));
    context.push_back(normed(fused, numbers_of(files, "hidden_norm.weight")));
  }
  for (int place = 0; place < kPlaces; ++place) {
    places_.push_back(row_of(files, "embed_tokens.weight", place == 0 ? root : 0));
  }
  for (const char* prefix : {"layers.0.", "layers.1."}) Layer(files, prefix).run(context, places_);
  for (Numbers& y : places_) y = normed(y, numbers_of(files, "norm.weight"));
}

Guess Formulas::after(const Numbers& state, TokenId token, int place) const {
  const Numbers& y = places_[static_cast<std::size_t>(place)];
  const Numbers w = row_of(files_, "markov_head.markov_w1.weight", token);
  Guess guess{state, {}, 0};
  Numbers bias = w;
  if (kind_ == MarkovKind::gated) {
    const Numbers gate = mixed("markov_head.gate_proj", concatenated(y, w));
    for (std::size_t i = 0; i < kRank; ++i) bias[i] *= sigmoid(gate[i]);
  } else if (kind_ == MarkovKind::rnn) {
    const Numbers z = mixed("markov_head.joint_proj", concatenated(concatenated(state, w), y));
    for (std::size_t i = 0; i < kRank; ++i) {
      const double kept = sigmoid(z[i]);
      guess.state[i] = kept * state[i] + (1 - kept) * std::tanh(z[kRank + i]);
      bias[i] = std::tanh(z[2 * kRank + i]);
    }
  }
  guess.log_p = sum(times(numbers_of(files_, "lm_head.weight"), y),
                    times(numbers_of(files_, "markov_head.markov_w2.weight"), bias));
  double total = 0;
  for (const double logit : guess.log_p) total += std::exp(logit);
  for (double& logit : guess.log_p) logit -= std::log(total);
  guess.sure = sigmoid(mixed("confidence_head.proj", concatenated(y, w))[0]);
  return guess;
}

Guess Formulas::of_root(TokenId root) const { return after(Numbers(kRank), root, 0); }

Numbers Formulas::mixed(const std::string& name, const Numbers& x) const {
  return sum(times(numbers_of(files_, name + ".weight"), x), numbers_of(files_, name + ".bias"));
}

}  // namespace talon::block_formulas
