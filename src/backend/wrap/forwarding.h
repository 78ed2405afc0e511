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
  Buffer allocate(int rows, int cols) override { return inner_->allocate(rows, cols); }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    return inner_->load_weight(matrix, layout);
  }
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override {
    return inner_->allocate_kv(shape);
  }
  void upload(std::span<const float> from, const View& to) override { inner_->upload(from, to); }
  void download(const View& from, std::span<float> to) override { inner_->download(from, to); }
  void embed(const Weight& table, std::span<const TokenId> tokens, const View& out) override {
    inner_->embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override { inner_->linear(args); }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    inner_->rms_norm(x, weight, epsilon, out);
  }
  void add(const View& a, const View& b, const View& out) override { inner_->add(a, b, out); }
  void silu_gate(const View& gate, const View& up, const View& out) override {
    inner_->silu_gate(gate, up, out);
  }
  void copy(const View& from, const View& to) override { inner_->copy(from, to); }
  void gather_rows(const View& from, std::span<const std::int32_t> rows, const View& to) override {
    inner_->gather_rows(from, rows, to);
  }
  void scatter_rows(const View& from, std::span<const std::int32_t> rows, const View& to) override {
    inner_->scatter_rows(from, rows, to);
  }
  void attention(const AttentionArgs& args) override { inner_->attention(args); }
  void copy_kv(KvStore& cache, std::span<const Slot> from, std::span<const Slot> to) override {
    inner_->copy_kv(cache, from, to);
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    inner_->softmax(logits, temperature, out);
  }
  void argmax(const View& x, std::span<TokenId> out) override { inner_->argmax(x, out); }
  void top_k(const View& x, int k, std::span<float> values, std::span<TokenId> indices) override {
    inner_->top_k(x, k, values, indices);
  }
  void synchronize() override { inner_->synchronize(); }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace talon
