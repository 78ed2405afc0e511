#pragma once

#include "cli/train/train_policy.h"

namespace talon {

/// `talon train policy` itself: gathers drafts with the real engine, trains on them and writes the
/// network. The exit code.
int train_policy_command(const TrainPolicyRequest& request);

}  // namespace talon
