#pragma once

#include <memory>

#include "backend/wrap/forwarding.h"
#include "faulty_allocations.h"

namespace talon::test {

/// Ticks at every operation that a step may use: at all but those that load or describe.
class FaultyBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Buffer allocate(int rows, int cols) override {
    trigger.tick();
    return ForwardingBackend::allocate(rows, cols);
  }
  IndexBuffer allocate_indices(int count) override {
    trigger.tick();
    return ForwardingBackend::allocate_indices(count);
  }
  void upload(std::span<const float> from, const View& to) override {
    trigger.tick();
    ForwardingBackend::upload(from, to);
  }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    trigger.tick();
    ForwardingBackend::upload(from, to);
  }
  Fence download_async(const View& from, std::span<float> to) override {
    trigger.tick();
    return ForwardingBackend::download_async(from, to);
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    trigger.tick();
    return ForwardingBackend::download_async(from, to);
  }
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    trigger.tick();
    ForwardingBackend::embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override {
    trigger.tick();
    ForwardingBackend::linear(args);
  }
  void linear_all(std::span<const LinearArgs> calls) override {
    trigger.tick();
    ForwardingBackend::linear_all(calls);
  }
  void route(const RouteArgs& args) override {
    trigger.tick();
    ForwardingBackend::route(args);
  }
  void experts(const ExpertArgs& args) override {
    trigger.tick();
    ForwardingBackend::experts(args);
  }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    trigger.tick();
    ForwardingBackend::count_first_uses(ids, experts, counts);
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    trigger.tick();
    ForwardingBackend::rms_norm(x, weight, epsilon, out);
  }
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override {
    trigger.tick();
    ForwardingBackend::layer_norm(x, weight, bias, epsilon, out);
  }
  void add(const View& a, const View& b, const View& out) override {
    trigger.tick();
    ForwardingBackend::add(a, b, out);
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    trigger.tick();
    ForwardingBackend::add_scaled(a, b, factor, out);
  }
  void scale(const View& x, float factor) override {
    trigger.tick();
    ForwardingBackend::scale(x, factor);
  }
  void scale_rows(const View& x, const View& factors) override {
    trigger.tick();
    ForwardingBackend::scale_rows(x, factors);
  }
  void soft_cap(const View& x, float cap) override {
    trigger.tick();
    ForwardingBackend::soft_cap(x, cap);
  }
  void activate(const View& x, Activation function) override {
    trigger.tick();
    ForwardingBackend::activate(x, function);
  }
  void copy(const View& from, const View& to) override {
    trigger.tick();
    ForwardingBackend::copy(from, to);
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    trigger.tick();
    ForwardingBackend::gather_rows(from, rows, to);
  }
  void scatter_rows(const View& from, const Indices& rows, const View& to) override {
    trigger.tick();
    ForwardingBackend::scatter_rows(from, rows, to);
  }
  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    trigger.tick();
    return ForwardingBackend::prepare(layout);
  }
  void attention(const AttentionArgs& args) override {
    trigger.tick();
    ForwardingBackend::attention(args);
    trigger.tick();
  }
  void recurrent(const RecurrentArgs& args) override {
    trigger.tick();
    ForwardingBackend::recurrent(args);
    trigger.tick();
  }
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    trigger.tick();
    ForwardingBackend::copy_kv(cache, from, to);
  }
  void softmax(const View& logits, float temperature, const View& out) override {
    trigger.tick();
    ForwardingBackend::softmax(logits, temperature, out);
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    trigger.tick();
    ForwardingBackend::argmax(x, best, largest);
  }
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    trigger.tick();
    ForwardingBackend::race(logits, draws, winners, largest);
  }
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    trigger.tick();
    ForwardingBackend::gumbel(noise, tokens, out);
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    trigger.tick();
    ForwardingBackend::top_k(x, k, values, indices);
  }
  void replay(const ReplayKey& key, const std::function<void()>& body) override {
    trigger.tick();
    ForwardingBackend::replay(key, body);
  }
  void synchronize() override {
    trigger.tick();
    ForwardingBackend::synchronize();
  }

  Trigger trigger;
};

}  // namespace talon::test
