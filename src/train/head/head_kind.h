#pragma once

#include <array>
#include <string_view>

namespace talon {

/// What can be trained, a draft head or a model. The command line, which has no libtorch, reads it,
/// too.
enum class HeadKind { eagle, eagle3, medusa, dflash, peagle, draft };
inline constexpr std::array kTrainedKinds = {HeadKind::eagle,  HeadKind::eagle3, HeadKind::medusa,
                                             HeadKind::dflash, HeadKind::peagle, HeadKind::draft};

/// How options and files name it.
constexpr std::string_view name_of(HeadKind kind) {
  switch (kind) {
    case HeadKind::eagle:
      return "eagle";
    case HeadKind::eagle3:
      return "eagle3";
    case HeadKind::medusa:
      return "medusa";
    case HeadKind::dflash:
      return "dflash";
    case HeadKind::peagle:
      return "peagle";
    case HeadKind::draft:
      return "draft";
  }
  return "";
}

}  // namespace talon
