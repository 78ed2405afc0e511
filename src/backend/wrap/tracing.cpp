#include "backend/wrap/tracing.h"

#include <chrono>

namespace talon {
namespace {

using Clock = std::chrono::steady_clock;

class Tracing : public TracingBackend {
 public:
  using TracingBackend::TracingBackend;

  std::span<const TraceEntry> entries() const override { return entries_; }
  void clear() override { entries_.clear(); }

  std::string description() const override { return inner_->description() + ", traced"; }

  void upload(std::span<const float> from, const View& to) override {
    timed("upload", to.rows, [&] { inner_->upload(from, to); });
  }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    timed("upload", 1, [&] { inner_->upload(from, to); });
  }
  Fence download_async(const View& from, std::span<float> to) override {
    timed("download", from.rows, [&] { inner_->download(from, to); });
    return {};
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    timed("download", 1, [&] { inner_->download(from, to); });
    return {};
  }
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    timed("embed", out.rows, [&] { inner_->embed(table, tokens, out); });
  }
  void linear(const LinearArgs& args) override {
    std::size_t bytes = 0;
    for (const Projection& output : args.outputs) bytes += output.weight->bytes;
    timed(
        "linear", args.input.rows, [&] { inner_->linear(args); }, bytes);
  }
  void linear_all(std::span<const LinearArgs> calls) override {
    std::size_t bytes = 0;
    for (const LinearArgs& args : calls) {
      for (const Projection& output : args.outputs) bytes += output.weight->bytes;
    }
    const int rows = calls.empty() ? 0 : calls[0].input.rows;
    timed(
        "linear_all", rows, [&] { inner_->linear_all(calls); }, bytes);
  }
  void route(const RouteArgs& args) override {
    timed("route", args.scores.rows, [&] { inner_->route(args); });
  }
  void experts(const ExpertArgs& args) override {
    timed("experts", args.input.rows, [&] { inner_->experts(args); });
  }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    timed("count_first_uses", counts.count,
          [&] { inner_->count_first_uses(ids, experts, counts); });
  }
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override {
    timed("layer_norm", x.rows, [&] { inner_->layer_norm(x, weight, bias, epsilon, out); });
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    timed("add_scaled", a.rows, [&] { inner_->add_scaled(a, b, factor, out); });
  }
  void scale(const View& x, float factor) override {
    timed("scale", x.rows, [&] { inner_->scale(x, factor); });
  }
  void scale_rows(const View& x, const View& factors) override {
    timed("scale_rows", x.rows, [&] { inner_->scale_rows(x, factors); });
  }
  void soft_cap(const View& x, float cap) override {
    timed("soft_cap", x.rows, [&] { inner_->soft_cap(x, cap); });
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    timed("rms_norm", x.rows, [&] { inner_->rms_norm(x, weight, epsilon, out); });
  }
  void add(const View& a, const View& b, const View& out) override {
    timed("add", a.rows, [&] { inner_->add(a, b, out); });
  }
  void activate(const View& x, Activation function) override {
    timed("activate", x.rows, [&] { inner_->activate(x, function); });
  }
  void copy(const View& from, const View& to) override {
    timed("copy", from.rows, [&] { inner_->copy(from, to); });
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    timed("gather_rows", to.rows, [&] { inner_->gather_rows(from, rows, to); });
  }
  void scatter_rows(const View& from, const Indices& rows, const View& to) override {
    timed("scatter_rows", from.rows, [&] { inner_->scatter_rows(from, rows, to); });
  }
  void attention(const AttentionArgs& args) override {
    timed("attention", args.q.rows, [&] { inner_->attention(args); });
  }
  void recurrent(const RecurrentArgs& args) override {
    timed("recurrent", args.inputs.rows, [&] { inner_->recurrent(args); });
  }
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    timed("copy_kv", from.count, [&] { inner_->copy_kv(cache, from, to); });
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    timed("softmax", logits.rows, [&] { inner_->softmax(logits, temperature, out); });
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    timed("argmax", x.rows, [&] { inner_->argmax(x, best, largest); });
  }
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    timed("race", logits.rows, [&] { inner_->race(logits, draws, winners, largest); });
  }
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    timed("gumbel", out.rows, [&] { inner_->gumbel(noise, tokens, out); });
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    timed("top_k", x.rows, [&] { inner_->top_k(x, k, values, indices); });
  }

 private:
  template <typename Operation>
  void timed(std::string_view operation, int rows, Operation&& run, std::size_t weight_bytes = 0) {
    const Clock::time_point start = Clock::now();
    run();
    inner_->synchronize();
    const std::chrono::duration<double, std::milli> ms = Clock::now() - start;
    entries_.push_back({std::string(operation), rows, ms.count(), weight_bytes});
  }

  std::vector<TraceEntry> entries_;
};

}  // namespace

std::unique_ptr<TracingBackend> make_tracing_backend(std::unique_ptr<Backend> backend) {
  return std::make_unique<Tracing>(std::move(backend));
}

}  // namespace talon
