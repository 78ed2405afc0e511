#include "train/data/temperature_mix.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

double parse(std::string_view text, std::string_view mix, double most) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value >= 0 && value <= most)) {
    throw UsageError(
        fmt::format("--temperature-mix \"{}\": expected TEMPERATURE[-TO][:WEIGHT],... with numbers "
                    "from 0 to {}, found \"{}\"",
                    mix, most, text));
  }
  return value;
}

}  // namespace

TemperatureMix::TemperatureMix(std::string_view text) : text_(text) {
  double sum = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    const std::size_t colon = std::min(part.find(':'), part.size());
    const std::string_view range = part.substr(0, colon);
    const std::size_t dash = std::min(range.find('-'), range.size());
    const double least = parse(range.substr(0, dash), text, kMostTemperature);
    const double most =
        dash == range.size() ? least : parse(range.substr(dash + 1), text, kMostTemperature);
    const double weight = colon == part.size() ? 1 : parse(part.substr(colon + 1), text, 1e6);
    parts_.push_back({std::min(least, most), std::max(least, most), weight});
    sum += weight;
    begin = comma + 1;
  }
  if (sum <= 0) {
    throw UsageError(fmt::format("--temperature-mix \"{}\": expected weights above 0", text));
  }
  for (Part& part : parts_) part.weight /= sum;
}

double TemperatureMix::at(double place) const {
  const Part* last = nullptr;
  for (const Part& part : parts_) {
    if (part.weight <= 0) continue;
    last = &part;
    if (place < part.weight) break;
    place -= part.weight;
  }
  const double within = std::clamp(place / last->weight, 0.0, 1.0);
  return last->least + within * (last->most - last->least);
}

}  // namespace talon
