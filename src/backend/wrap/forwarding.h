#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace talon {

/// Passes every operation on to the backend it owns: what watches or spoils some operations derives
/// from it and overrides those.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  BackendTraits traits() const override { return inner_->traits(); }
  int threads() const override { return inner_->threads(); }
  bool is_disturbed() const override { return inner_->is_disturbed(); }
  Buffer allocate(int rows, int cols) override { return inner_->allocate(rows, cols); }
  IndexBuffer allocate_indices(int count) override { return inner_->allocate_indices(count); }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    return inner_->load_weight(matrix, layout);
  }
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override {
    return inner_->allocate_kv(shape);
  }
  void upload(std::span<const float> from, const View& to) override { inner_->upload(from, to); }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    inner_->upload(from, to);
  }
  Fence download_async(const View& from, std::span<float> to) override {
    return inner_->download_async(from, to);
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    return inner_->download_async(from, to);
  }
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    inner_->embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override { inner_->linear(args); }
  void linear_all(std::span<const LinearArgs> calls) override { inner_->linear_all(calls); }
  void route(const RouteArgs& args) override { inner_->route(args); }
  void experts(const ExpertArgs& args) override { inner_->experts(args); }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    inner_->count_first_uses(ids, experts, counts);
  }
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override {
    inner_->layer_norm(x, weight, bias, epsilon, out);
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    inner_->add_scaled(a, b, factor, out);
  }
  void scale(const View& x, float factor) override { inner_->scale(x, factor); }
  void scale_rows(const View& x, const View& factors) override { inner_->scale_rows(x, factors); }
  void soft_cap(const View& x, float cap) override { inner_->soft_cap(x, cap); }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    inner_->rms_norm(x, weight, epsilon, out);
  }
  void add(const View& a, const View& b, const View& out) override { inner_->add(a, b, out); }
  void activate(const View& x, Activation function) override { inner_->activate(x, function); }
  void copy(const View& from, const View& to) override { inner_->copy(from, to); }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    inner_->gather_rows(from, rows, to);
  }
  void scatter_rows(const View& from, const Indices& rows, const View& to) override {
    inner_->scatter_rows(from, rows, to);
  }
  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    return inner_->prepare(layout);
  }
  void attention(const AttentionArgs& args) override { inner_->attention(args); }
  void recurrent(const RecurrentArgs& args) override { inner_->recurrent(args); }
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    inner_->copy_kv(cache, from, to);
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    inner_->softmax(logits, temperature, out);
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    inner_->argmax(x, best, largest);
  }
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    inner_->race(logits, draws, winners, largest);
  }
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    inner_->gumbel(noise, tokens, out);
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    inner_->top_k(x, k, values, indices);
  }
  /// Not recorded: every operation of `body` comes by here.
  void replay(const ReplayKey&, const std::function<void()>& body) override { body(); }
  void synchronize() override { inner_->synchronize(); }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace talon
