#pragma once

#include <memory>

#include "core/option_text.h"
#include "verify/verifier.h"

namespace talon {

std::unique_ptr<Verifier> make_follow_rule(OptionText& options);
std::unique_ptr<Verifier> make_token_rule(OptionText& options);
std::unique_ptr<Verifier> make_block_rule(OptionText& options);
std::unique_ptr<Verifier> make_traversal_rule(OptionText& options);
std::unique_ptr<Verifier> make_typical_rule(OptionText& options);

}  // namespace talon
