#include "backend/wrap/checking.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "backend/wrap/shadow_memory.h"
#include "core/error.h"

namespace talon {
namespace {

/// Before each operation the primary's inputs are copied into the reference, so that every
/// difference is the operation's own. The two caches are fed by the same inputs and never compared:
/// what they hold shows in what attention returns.
class Checking : public CheckingBackend {
 public:
  Checking(std::unique_ptr<Backend> primary, std::unique_ptr<Backend> reference, double tolerance)
      : primary_(std::move(primary)), reference_(std::move(reference)), tolerance_(tolerance) {}

  const std::vector<Mismatch>& mismatches() const override { return mismatches_; }

  std::string_view name() const override { return primary_->name(); }
  std::string description() const override {
    return primary_->description() + ", checked against " + std::string(reference_->name());
  }

  Buffer allocate(int rows, int cols) override {
    Buffer primary = primary_->allocate(rows, cols);
    const View view = primary.view();
    return {view, std::make_unique<ShadowedMemory>(memory_, std::move(primary),
                                                   reference_->allocate(rows, cols))};
  }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override;
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override;

  void upload(std::span<const float> from, const View& to) override { primary_->upload(from, to); }
  void download(const View& from, std::span<float> to) override { primary_->download(from, to); }
  void synchronize() override { primary_->synchronize(); }

  void embed(const Weight& table, std::span<const TokenId> tokens, const View& out) override {
    const auto& weight = static_cast<const ShadowedWeight&>(table);
    primary_->embed(*weight.primary, tokens, out);
    reference_->embed(*weight.shadow, tokens, memory_.translate(out));
    compare("embed", out);
  }
  void linear(const LinearArgs& args) override;
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    mirror({x, weight});
    primary_->rms_norm(x, weight, epsilon, out);
    reference_->rms_norm(shadow(x), shadow(weight), epsilon, shadow(out));
    compare("rms_norm", out);
  }
  void add(const View& a, const View& b, const View& out) override {
    mirror({a, b});
    primary_->add(a, b, out);
    reference_->add(shadow(a), shadow(b), shadow(out));
    compare("add", out);
  }
  void silu_gate(const View& gate, const View& up, const View& out) override {
    mirror({gate, up});
    primary_->silu_gate(gate, up, out);
    reference_->silu_gate(shadow(gate), shadow(up), shadow(out));
    compare("silu_gate", out);
  }
  void copy(const View& from, const View& to) override {
    mirror({from});
    primary_->copy(from, to);
    reference_->copy(shadow(from), shadow(to));
    compare("copy", to);
  }
  void gather_rows(const View& from, std::span<const std::int32_t> rows, const View& to) override {
    mirror({from});
    primary_->gather_rows(from, rows, to);
    reference_->gather_rows(shadow(from), rows, shadow(to));
    compare("gather_rows", to);
  }
  void scatter_rows(const View& from, std::span<const std::int32_t> rows, const View& to) override {
    mirror({from, to});
    primary_->scatter_rows(from, rows, to);
    reference_->scatter_rows(shadow(from), rows, shadow(to));
    compare("scatter_rows", to);
  }
  void attention(const AttentionArgs& args) override;
  void copy_kv(KvStore& cache, std::span<const Slot> from, std::span<const Slot> to) override {
    auto& both = static_cast<ShadowedCache&>(cache);
    primary_->copy_kv(*both.primary, from, to);
    reference_->copy_kv(*both.shadow, from, to);
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    mirror({logits});
    primary_->softmax(logits, temperature, out);
    reference_->softmax(shadow(logits), temperature, shadow(out));
    compare("softmax", out);
  }
  void argmax(const View& x, std::span<TokenId> out) override {
    std::vector<TokenId> expected(out.size());
    mirror({x});
    primary_->argmax(x, out);
    reference_->argmax(shadow(x), expected);
    compare_choice("argmax", out, expected);
  }
  void top_k(const View& x, int k, std::span<float> values, std::span<TokenId> indices) override {
    std::vector<float> expected_values(values.size());
    std::vector<TokenId> expected(indices.size());
    mirror({x});
    primary_->top_k(x, k, values, indices);
    reference_->top_k(shadow(x), k, expected_values, expected);
    compare_choice("top_k", indices, expected);
  }

 private:
  View shadow(const View& view) const { return memory_.translate(view); }
  void mirror(std::initializer_list<View> inputs);
  void compare(const std::string& operation, const View& out);
  /// Indices must be equal; a mismatch gives their distance and the one expected.
  void compare_choice(const std::string& operation, std::span<const TokenId> found,
                      std::span<const TokenId> expected);

  std::unique_ptr<Backend> primary_, reference_;
  double tolerance_;
  ShadowMemory memory_;
  std::vector<Mismatch> mismatches_;
  std::vector<float> found_, expected_;
};

std::unique_ptr<Weight> Checking::load_weight(const StoredMatrix& matrix, WeightLayout layout) {
  auto both = std::make_unique<ShadowedWeight>();
  both->primary = primary_->load_weight(matrix, layout);
  both->shadow = reference_->load_weight(matrix, layout);
  static_cast<Weight&>(*both) = *both->primary;
  return both;
}

std::unique_ptr<KvStore> Checking::allocate_kv(const KvShape& shape) {
  auto both = std::make_unique<ShadowedCache>();
  both->primary = primary_->allocate_kv(shape);
  both->shadow = reference_->allocate_kv(shape);
  static_cast<KvStore&>(*both) = *both->primary;
  return both;
}

void Checking::linear(const LinearArgs& args) {
  mirror({args.input, args.norm});
  std::vector<Projection> primary(args.outputs.begin(), args.outputs.end());
  std::vector<Projection> reference = primary;
  for (std::size_t i = 0; i < primary.size(); ++i) {
    const Projection& output = args.outputs[i];
    mirror({output.bias});
    if (output.accumulate) mirror({output.out});
    const auto& weight = static_cast<const ShadowedWeight&>(*output.weight);
    primary[i].weight = weight.primary.get();
    reference[i] = {weight.shadow.get(), shadow(output.out), shadow(output.bias),
                    output.accumulate};
  }
  LinearArgs both = args;
  both.outputs = primary;
  primary_->linear(both);
  both.input = shadow(args.input);
  both.norm = shadow(args.norm);
  both.outputs = reference;
  reference_->linear(both);
  for (const Projection& output : args.outputs) compare("linear", output.out);
}

void Checking::attention(const AttentionArgs& args) {
  mirror({args.q, args.k, args.v, args.rope, args.q_norm, args.k_norm});
  auto& cache = static_cast<ShadowedCache&>(*args.cache);
  AttentionArgs both = args;
  both.cache = cache.primary.get();
  primary_->attention(both);
  both.q = shadow(args.q);
  both.k = shadow(args.k);
  both.v = shadow(args.v);
  both.out = shadow(args.out);
  both.cache = cache.shadow.get();
  both.rope = shadow(args.rope);
  both.q_norm = shadow(args.q_norm);
  both.k_norm = shadow(args.k_norm);
  reference_->attention(both);
  compare("attention", args.out);
}

void Checking::mirror(std::initializer_list<View> inputs) {
  for (const View& input : inputs) {
    if (!input) continue;
    found_.resize(static_cast<std::size_t>(input.rows) * static_cast<std::size_t>(input.cols));
    primary_->download(input, found_);
    reference_->upload(found_, shadow(input));
  }
}

void Checking::compare(const std::string& operation, const View& out) {
  const auto cols = static_cast<std::size_t>(out.cols);
  found_.resize(static_cast<std::size_t>(out.rows) * cols);
  expected_.resize(found_.size());
  primary_->download(out, found_);
  reference_->download(shadow(out), expected_);
  for (std::size_t row = 0; row < found_.size(); row += cols) {
    double largest = 0, squares = 0;
    for (std::size_t i = row; i < row + cols; ++i) {
      const double difference = std::fabs(double{found_[i]} - expected_[i]);
      if (!(difference <= largest)) largest = difference;  // also keeps a NaN
      squares += double{expected_[i]} * expected_[i];
    }
    const double scale = std::sqrt(squares / static_cast<double>(cols));
    if (!(largest <= tolerance_ * scale)) mismatches_.push_back({operation, largest, scale});
  }
}

void Checking::compare_choice(const std::string& operation, std::span<const TokenId> found,
                              std::span<const TokenId> expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const double distance = std::abs(found[i] - expected[i]);
    mismatches_.push_back({operation, distance, static_cast<double>(expected[i])});
  }
}

}  // namespace

std::unique_ptr<CheckingBackend> make_checking_backend(std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<Backend> reference,
                                                       double tolerance) {
  return std::make_unique<Checking>(std::move(backend), std::move(reference), tolerance);
}

}  // namespace talon
