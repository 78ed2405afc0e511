#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/tools/answer_part.h"

namespace talon {

std::unique_ptr<AnswerReader> make_hermes_reader();
/// tools: names of those that are offered.
std::unique_ptr<AnswerReader> make_llama3_reader(std::vector<std::string> tools);
std::unique_ptr<AnswerReader> make_mistral_reader();
/// continues: the text begins in the body of a message, else in the head of one.
std::unique_ptr<AnswerReader> make_harmony_reader(bool continues);
std::unique_ptr<AnswerReader> make_functiongemma_reader();
/// What stands between <think> and </think> is reasoning; the rest is read by `rest`.
std::unique_ptr<AnswerReader> make_reasoning_reader(std::unique_ptr<AnswerReader> rest,
                                                    bool begins_thinking);

}  // namespace talon
