#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace talon {

/// Stands for work that a device has been asked for. An empty one stands for finished work.
class Fence {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;  // of a derived class: waits
    virtual void wait() = 0;
  };

  Fence() = default;
  explicit Fence(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  void wait() {
    if (pending_) pending_->wait();
    pending_.reset();
  }

 private:
  std::unique_ptr<Pending> pending_;
};

/// Of what one stream was asked for, in this order: the last vouches for those before it, so there
/// is one wait.
inline void wait_for_all(std::span<Fence> fences) {
  for (std::size_t i = fences.size(); i > 0; --i) fences[i - 1].wait();
}

}  // namespace talon
