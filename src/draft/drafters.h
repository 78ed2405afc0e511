#pragma once

#include <memory>

#include "draft/registry.h"

namespace talon {

std::unique_ptr<Drafter> make_none_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_ngram_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_suffix_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_eagle1_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_eagle2_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_eagle3_drafter(OptionText& options, const DrafterContext& context);
std::unique_ptr<Drafter> make_medusa_drafter(OptionText& options, const DrafterContext& context);

}  // namespace talon
