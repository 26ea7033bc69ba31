// The alternatives to a plan, and where they put a layer, for people and as JSON.
#pragma once

#include "ir/AlternativePlan.h"
#include "support/JsonWriter.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// A line for each alternative; nothing where there are none.
void printAlternatives(llvm::raw_ostream &os, const Plan &chosen,
                       llvm::ArrayRef<AlternativePlan> alternatives);

/// Prints the cost of each alternative and the place of `layer` in it, or how to get alternatives
/// if there are none.
void explainAlternatives(llvm::raw_ostream &os, const Plan &chosen,
                         llvm::ArrayRef<AlternativePlan> alternatives, llvm::StringRef layer);

/// The facts of explainAlternatives(), as the attribute `alternatives` of an object.
void writeAlternatives(JsonWriter &json, const Plan &chosen,
                       llvm::ArrayRef<AlternativePlan> alternatives, llvm::StringRef layer);

} // namespace heterplan
