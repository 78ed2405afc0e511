#pragma once

#include <memory>
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

}  // namespace talon
