#pragma once

#include "model/config/config.h"

namespace talon {

/// How pictures are drawn where nothing else is asked for, at temperature 1.
struct UsualSampling {
  double guidance = 2;
  int top_k = 0;  // 0: all codes
};

/// What the published programs of a model's family draw with; our own models guidance 2 and all
/// codes. top_k is 0 where the model has no more codes. REQUIRES: a model that draws pictures.
UsualSampling usual_sampling(const ModelConfig& config);

}  // namespace talon
