#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

/// Llama 3.1: long wavelengths are stretched, short ones kept, those between are mixed. Llama 4
/// has equal factors, so none between. What the frequency is divided by, as GGUF files keep it.
float llama3_divisor(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength <= rope.original_context / rope.high_frequency_factor) return 1;
  if (wavelength > rope.original_context / rope.low_frequency_factor) {
    return static_cast<float>(rope.factor);
  }
  const double smooth = (rope.original_context / wavelength - rope.low_frequency_factor) /
                        (rope.high_frequency_factor - rope.low_frequency_factor);
  return static_cast<float>(1 / ((1 - smooth) / rope.factor + smooth));
}

/// The pair whose wavelength fits `rotations` times into the original context (YaRN,
/// arXiv:2309.00071, section 3.2).
double yarn_dimension(const RopeConfig& rope, int head_dim, double rotations) {
  return head_dim * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

/// YaRN by parts: pairs below the fast border keep their frequency, those above the slow one are
/// stretched.
double yarn_frequency(const RopeConfig& rope, int head_dim, int pair, double frequency) {
  double low = yarn_dimension(rope, head_dim, rope.beta_fast);
  double high = yarn_dimension(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / rope.factor * ramp + frequency * (1 - ramp);
}

double plain_frequency(const RopeConfig& rope, int head_dim, int pair) {
  return std::pow(rope.base, -2.0 * pair / head_dim);
}

double scaled_frequency(const RopeConfig& rope, int head_dim, int pair) {
  const double frequency = plain_frequency(rope, head_dim, pair);
  switch (rope.scaling) {
    case RopeConfig::Scaling::none:
    case RopeConfig::Scaling::longrope:
      return frequency;
    case RopeConfig::Scaling::linear:
      return frequency / rope.factor;
    case RopeConfig::Scaling::llama3:
      return frequency / llama3_divisor(rope, frequency);
    case RopeConfig::Scaling::yarn:
      return yarn_frequency(rope, head_dim, pair, frequency);
  }
  return frequency;
}

}  // namespace

double yarn_attention_factor(double factor, double exponent) {
  return factor <= 1 ? 1.0 : 0.1 * exponent * std::log(factor) + 1.0;
}

std::vector<float> llama3_divisors(const RopeConfig& rope, int width) {
  std::vector<float> divisors;
  for (int pair = 0; pair < width / 2; ++pair)
    divisors.push_back(llama3_divisor(rope, plain_frequency(rope, width, pair)));
  return divisors;
}

void choose_divisors(RopeConfig& rope, int context) {
  if (rope.scaling != RopeConfig::Scaling::longrope) return;
  rope.frequency_divisors =
      context <= rope.original_context ? rope.short_divisors : rope.long_divisors;
}

int turning_columns(const RopeConfig& rope, int head_dim) {
  return rope.rotary > 0 ? rope.rotary : head_dim;
}

int rope_width(const RopeConfig& rope, const ModelConfig& config, LayerPlan::Rope kind) {
  if (rope.rotary > 0) return rope.rotary;
  for (const LayerPlan& plan : config.plans) {
    if (plan.rope == kind) return plan.head_dim;
  }
  // Nothing turns by it.
  const std::size_t divisors = rope.frequency_divisors.size();
  return divisors > 0 ? 2 * static_cast<int>(divisors) : config.head_dim;
}

RopeAngles::RopeAngles(const RopeConfig& rope, int head_dim)
    : grid_columns_(rope.grid_columns), prompt_vanishes_(rope.prompt_vanishes) {
  expects(head_dim > 0 && head_dim % 2 == 0);
  if (grid_columns_ > 0) {
    expects(head_dim % 4 == 0, "as many pairs that turn by rows as by columns");
    for (int pair = 0; pair < head_dim / 2; ++pair)
      frequency_.push_back(scaled_frequency(rope, head_dim / 2, pair % (head_dim / 4)));
    return;
  }
  expects(rope.frequency_divisors.empty() ||
              rope.frequency_divisors.size() >= static_cast<std::size_t>(head_dim) / 2,
          "a divisor of every frequency");
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    frequency_.push_back(scaled_frequency(rope, head_dim, pair));
    if (rope.frequency_divisors.empty()) continue;
    frequency_.back() /= rope.frequency_divisors[static_cast<std::size_t>(pair)];
  }
  if (rope.scaling == RopeConfig::Scaling::longrope && rope.attention_factor != 0) {
    amplitude_ = rope.attention_factor;
  }
  if (rope.scaling != RopeConfig::Scaling::yarn) return;
  amplitude_ =
      rope.attention_factor != 0 ? rope.attention_factor : yarn_attention_factor(rope.factor);
}

/// By which a pair turns in a row of the table.
double RopeAngles::angle(int row, std::size_t pair) const {
  if (grid_columns_ == 0) return row * frequency_[pair];
  if (row == 0) return 0;
  const int cell = row - 1;
  const bool by_row = pair < frequency_.size() / 2;
  return (by_row ? cell / grid_columns_ : cell % grid_columns_) * frequency_[pair];
}

std::vector<float> RopeAngles::rows(int first, int count) const {
  const std::size_t pairs = frequency_.size();
  std::vector<float> table(static_cast<std::size_t>(count) * 2 * pairs);
  float* row = table.data();
  for (int position = first; position < first + count; ++position, row += 2 * pairs) {
    if (prompt_vanishes_ && position == 0) continue;  // zeros
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const double turn = angle(position, pair);
      row[pair] = static_cast<float>(amplitude_ * std::cos(turn));
      row[pair + pairs] = static_cast<float>(amplitude_ * std::sin(turn));
    }
  }
  return table;
}

RopeTable::RopeTable(Backend& backend, const RopeConfig& rope, int head_dim, int positions)
    : backend_(backend), angles_(rope, head_dim), table_(backend.allocate(positions, head_dim)) {
  expects(positions > 0);
}

View RopeTable::reach(int positions) {
  constexpr int kRowsAtOnce = 256;
  const View table = table_.view();
  expects(positions <= table.rows, "positions of the rope table");
  while (filled_ < positions) {
    const int rows = std::min(kRowsAtOnce, table.rows - filled_);
    backend_.upload(angles_.rows(filled_, rows), table.row_range(filled_, rows));
    filled_ += rows;
  }
  return table;
}

}  // namespace talon
