#include "backend/wrap/checking.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "backend/index_list.h"
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
      : primary_(std::move(primary)),
        reference_(std::move(reference)),
        tolerance_(tolerance),
        shadow_indices_(*reference_),
        shadow_targets_(*reference_) {}

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
  BackendTraits traits() const override { return primary_->traits(); }
  int threads() const override { return primary_->threads(); }
  bool is_disturbed() const override { return primary_->is_disturbed(); }
  IndexBuffer allocate_indices(int count) override { return primary_->allocate_indices(count); }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override;
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override;

  void upload(std::span<const float> from, const View& to) override { primary_->upload(from, to); }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    primary_->upload(from, to);
  }
  Fence download_async(const View& from, std::span<float> to) override {
    return primary_->download_async(from, to);
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    return primary_->download_async(from, to);
  }
  void replay(const ReplayKey&, const std::function<void()>& body) override { body(); }
  void synchronize() override { primary_->synchronize(); }

  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    const auto& weight = static_cast<const ShadowedWeight&>(table);
    primary_->embed(*weight.primary, tokens, out);
    reference_->embed(*weight.shadow, shadow_indices_.put(values_of(tokens)), shadow(out));
    compare("embed", out);
  }
  void linear(const LinearArgs& args) override { linear_all({&args, 1}); }
  void linear_all(std::span<const LinearArgs> calls) override;
  void route(const RouteArgs& args) override;
  void experts(const ExpertArgs& args) override;
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    const Indices expected = shadow_targets_.put(values_of(counts));
    primary_->count_first_uses(ids, experts, counts);
    reference_->count_first_uses(shadow_indices_.put(values_of(ids)), experts, expected);
    compare_choice("count_first_uses", values_of(counts), expected);
  }
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override {
    mirror({x, weight, bias});
    primary_->layer_norm(x, weight, bias, epsilon, out);
    reference_->layer_norm(shadow(x), shadow(weight), shadow(bias), epsilon, shadow(out));
    compare("layer_norm", out);
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    mirror({a, b});
    primary_->add_scaled(a, b, factor, out);
    reference_->add_scaled(shadow(a), shadow(b), factor, shadow(out));
    compare("add_scaled", out);
  }
  void scale(const View& x, float factor) override {
    mirror({x});
    primary_->scale(x, factor);
    reference_->scale(shadow(x), factor);
    compare("scale", x);
  }
  void scale_rows(const View& x, const View& factors) override {
    mirror({x, factors});
    primary_->scale_rows(x, factors);
    reference_->scale_rows(shadow(x), shadow(factors));
    compare("scale_rows", x);
  }
  void soft_cap(const View& x, float cap) override {
    mirror({x});
    primary_->soft_cap(x, cap);
    reference_->soft_cap(shadow(x), cap);
    compare("soft_cap", x);
  }
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
  void activate(const View& x, Activation function) override {
    mirror({x});
    primary_->activate(x, function);
    reference_->activate(shadow(x), function);
    compare("activate", x);
  }
  void copy(const View& from, const View& to) override {
    mirror({from});
    primary_->copy(from, to);
    reference_->copy(shadow(from), shadow(to));
    compare("copy", to);
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    mirror({from});
    primary_->gather_rows(from, rows, to);
    reference_->gather_rows(shadow(from), shadow_indices_.put(values_of(rows)), shadow(to));
    compare("gather_rows", to);
  }
  void scatter_rows(const View& from, const Indices& rows, const View& to) override {
    mirror({from, to});
    primary_->scatter_rows(from, rows, to);
    reference_->scatter_rows(shadow(from), shadow_indices_.put(values_of(rows)), shadow(to));
    compare("scatter_rows", to);
  }
  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override;
  void attention(const AttentionArgs& args) override;
  void recurrent(const RecurrentArgs& args) override;
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    auto& both = static_cast<ShadowedCache&>(cache);
    primary_->copy_kv(*both.primary, from, to);
    const Indices sources = shadow_indices_.put(values_of(from));
    reference_->copy_kv(*both.shadow, sources, shadow_targets_.put(values_of(to)));
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    mirror({logits});
    primary_->softmax(logits, temperature, out);
    reference_->softmax(shadow(logits), temperature, shadow(out));
    compare("softmax", out);
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    mirror({x});
    primary_->argmax(x, best, largest);
    const std::vector<std::int32_t> found = values_of(best);
    const Indices expected = shadow_indices_.put(found);
    reference_->argmax(shadow(x), expected, shadow(largest));
    compare_choice("argmax", found, expected);
    compare("argmax", largest);
  }
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    mirror({logits});
    primary_->race(logits, draws, winners, largest);
    const std::vector<std::int32_t> found = values_of(winners);
    const Indices expected = shadow_indices_.put(found);
    reference_->race(shadow(logits), draws, expected, shadow(largest));
    compare_choice("race", found, expected);
    compare("race", largest);
  }
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    primary_->gumbel(noise, tokens, out);
    const Indices list = shadow_indices_.put(values_of(tokens));
    reference_->gumbel(noise, list, shadow(out));
    compare("gumbel", out);
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    mirror({x});
    primary_->top_k(x, k, values, indices);
    const std::vector<std::int32_t> found = values_of(indices);
    const Indices expected = shadow_indices_.put(found);
    reference_->top_k(shadow(x), k, shadow(values), expected);
    compare_choice("top_k", found, expected);
    compare("top_k", values);
  }

 private:
  View shadow(const View& view) const { return memory_.translate(view); }
  std::vector<std::int32_t> values_of(const Indices& indices) const {
    std::vector<std::int32_t> values(static_cast<std::size_t>(indices.count));
    primary_->download(indices, values);
    return values;
  }
  void mirror(std::initializer_list<View> inputs);
  void compare(const std::string& operation, const View& out);
  /// Indices must be equal; a mismatch gives their distance and the one expected.
  void compare_choice(const std::string& operation, std::span<const std::int32_t> found,
                      const Indices& expected);

  std::unique_ptr<Backend> primary_, reference_;
  double tolerance_;
  IndexList shadow_indices_, shadow_targets_;  // of the reference
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

void Checking::linear_all(std::span<const LinearArgs> calls) {
  std::vector<std::vector<Projection>> primary, reference;
  std::vector<LinearArgs> primary_calls(calls.begin(), calls.end());
  std::vector<LinearArgs> reference_calls = primary_calls;
  for (const LinearArgs& args : calls) {
    mirror({args.input, args.norm, args.norm_bias});
    primary.emplace_back(args.outputs.begin(), args.outputs.end());
    reference.push_back(primary.back());
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      const Projection& output = args.outputs[i];
      mirror({output.bias});
      if (output.accumulate) mirror({output.out});
      const auto& weight = static_cast<const ShadowedWeight&>(*output.weight);
      primary.back()[i].weight = weight.primary.get();
      reference.back()[i] = {weight.shadow.get(), shadow(output.out), shadow(output.bias),
                             output.accumulate};
    }
  }
  for (std::size_t call = 0; call < calls.size(); ++call) {
    primary_calls[call].outputs = primary[call];
    LinearArgs& shadowed = reference_calls[call];
    shadowed.input = shadow(calls[call].input);
    shadowed.norm = shadow(calls[call].norm);
    shadowed.norm_bias = shadow(calls[call].norm_bias);
    shadowed.outputs = reference[call];
  }
  primary_->linear_all(primary_calls);
  reference_->linear_all(reference_calls);
  for (const LinearArgs& args : calls) {
    for (const Projection& output : args.outputs) compare("linear", output.out);
  }
}

void Checking::route(const RouteArgs& args) {
  mirror({args.scores, args.bias, args.expert_scale});
  primary_->route(args);
  const std::vector<std::int32_t> found = values_of(args.ids);
  RouteArgs both = args;
  both.scores = shadow(args.scores);
  both.bias = shadow(args.bias);
  both.expert_scale = shadow(args.expert_scale);
  both.ids = shadow_indices_.put(found);
  both.weights = shadow(args.weights);
  reference_->route(both);
  compare_choice("route", found, both.ids);
  compare("route", args.weights);
}

void Checking::experts(const ExpertArgs& args) {
  mirror({args.input, args.weights, args.gate_bias, args.up_bias, args.down_bias});
  std::vector<ExpertWeights> primary, reference;
  const auto primary_of = [](const Weight* weight) -> const Weight* {
    return weight ? static_cast<const ShadowedWeight*>(weight)->primary.get() : nullptr;
  };
  const auto shadow_of = [](const Weight* weight) -> const Weight* {
    return weight ? static_cast<const ShadowedWeight*>(weight)->shadow.get() : nullptr;
  };
  for (const auto& [gate, up, down] : args.experts) {
    primary.push_back({primary_of(gate), primary_of(up), primary_of(down)});
    reference.push_back({shadow_of(gate), shadow_of(up), shadow_of(down)});
  }
  ExpertArgs both = args;
  both.experts = primary;
  primary_->experts(both);
  both.input = shadow(args.input);
  both.ids = shadow_indices_.put(values_of(args.ids));
  both.weights = shadow(args.weights);
  both.gate_bias = shadow(args.gate_bias);
  both.up_bias = shadow(args.up_bias);
  both.down_bias = shadow(args.down_bias);
  both.out = shadow(args.out);
  both.experts = reference;
  reference_->experts(both);
  compare("experts", args.out);
}

std::unique_ptr<PreparedLayout> Checking::prepare(const AttentionLayout& layout) {
  auto both = std::make_unique<ShadowedLayout>();
  both->primary = primary_->prepare(layout);
  both->shadow = reference_->prepare(layout);
  static_cast<PreparedLayout&>(*both) = *both->primary;
  return both;
}

void Checking::attention(const AttentionArgs& args) {
  mirror({args.q, args.k, args.v, args.rope, args.q_norm, args.k_norm, args.v_norm,
          args.query_scale, args.sinks});
  auto& cache = static_cast<ShadowedCache&>(*args.cache);
  const auto& layout = static_cast<const ShadowedLayout&>(*args.layout);
  AttentionArgs both = args;
  both.cache = cache.primary.get();
  both.layout = layout.primary.get();
  primary_->attention(both);
  both.q = shadow(args.q);
  both.k = shadow(args.k);
  both.v = shadow(args.v);
  both.out = shadow(args.out);
  both.cache = cache.shadow.get();
  both.layout = layout.shadow.get();
  both.rope = shadow(args.rope);
  both.q_norm = shadow(args.q_norm);
  both.k_norm = shadow(args.k_norm);
  both.v_norm = shadow(args.v_norm);
  both.query_scale = shadow(args.query_scale);
  both.sinks = shadow(args.sinks);
  reference_->attention(both);
  compare("attention", args.out);
}

void Checking::recurrent(const RecurrentArgs& args) {
  mirror({args.inputs, args.states, args.tails, args.filter, args.filter_bias, args.decay,
          args.decay_bias, args.norm, args.skip, args.gate});
  const auto& layout = static_cast<const ShadowedLayout&>(*args.layout);
  RecurrentArgs both = args;
  both.layout = layout.primary.get();
  primary_->recurrent(both);
  both.layout = layout.shadow.get();
  both.inputs = shadow(args.inputs);
  both.states = shadow(args.states);
  both.tails = shadow(args.tails);
  both.filter = shadow(args.filter);
  both.filter_bias = shadow(args.filter_bias);
  both.decay = shadow(args.decay);
  both.decay_bias = shadow(args.decay_bias);
  both.norm = shadow(args.norm);
  both.skip = shadow(args.skip);
  both.gate = shadow(args.gate);
  both.out = shadow(args.out);
  reference_->recurrent(both);
  if (args.out) compare("recurrent", args.out);
  if (args.states) compare("states of recurrent", args.states);
  compare("tails of recurrent", args.tails);
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

void Checking::compare_choice(const std::string& operation, std::span<const std::int32_t> found,
                              const Indices& expected) {
  std::vector<std::int32_t> wanted(found.size());
  reference_->download(expected, wanted);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    const double distance = std::abs(found[i] - wanted[i]);
    mismatches_.push_back({operation, distance, static_cast<double>(wanted[i])});
  }
}

}  // namespace

std::unique_ptr<CheckingBackend> make_checking_backend(std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<Backend> reference,
                                                       double tolerance) {
  return std::make_unique<Checking>(std::move(backend), std::move(reference), tolerance);
}

}  // namespace talon
