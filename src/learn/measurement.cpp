#include "learn/measurement.h"

namespace talon {
namespace {

constexpr std::string_view kTree = "topk=8,levels=6,nodes=15";

}  // namespace

bool Measurement::step() {
  try {
    advance();
  } catch (const std::exception& error) {
    problem_ = error.what();
    replay_.reset();
    return false;
  }
  return next_ < items_.size();
}

void Measurement::advance() {
  if (next_ == items_.size()) return;
  Item& item = items_[next_];
  if (!replay_) {
    // EAGLE-1 heads are measured by trees that follow their confidence, too.
    std::string drafter = learning_.drafter == "eagle" ? "eagle2" : learning_.drafter;
    drafter += fmt::format(":{},head={}", kTree, item.head.string());
    if (!learning_.taps.empty()) drafter += fmt::format(",taps={}", learning_.taps);
    replay_.emplace(model_, drafter, item.texts);
    return;
  }
  if (replay_->step()) return;
  item.tau = replay_->tau();
  item.rounds = replay_->rounds();
  replay_.reset();
  ++next_;
}

}  // namespace talon
