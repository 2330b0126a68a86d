<?php

/*
 * Prints, as JSON, all that reflection says about the extension's classes and functions. With the
 * extension loaded it describes that; without, the stub files given as arguments.
 */

declare(strict_types=1);

function describeType(?ReflectionType $type): ?string
{
    return $type === null ? null : (string) $type;
}

function describeAttributes(Reflector $of): array
{
    return array_map(static fn ($a) => [$a->getName(), $a->getArguments()], $of->getAttributes());
}

function describeParameter(ReflectionParameter $parameter): array
{
    return [
        'name' => $parameter->getName(),
        'type' => describeType($parameter->getType()),
        'optional' => $parameter->isOptional(),
        'default' => $parameter->isDefaultValueAvailable() ? var_export($parameter->getDefaultValue(), true) : 'none',
        'variadic' => $parameter->isVariadic(),
        'by reference' => $parameter->isPassedByReference(),
        'attributes' => describeAttributes($parameter),
    ];
}

function describeFunction(ReflectionFunctionAbstract $function): array
{
    return [
        'parameters' => array_map(describeParameter(...), $function->getParameters()),
        'required' => $function->getNumberOfRequiredParameters(),
        'returns' => describeType($function->getReturnType()),
        'tentatively returns' => describeType($function->getTentativeReturnType()),
        'returns reference' => $function->returnsReference(),
        'deprecated' => $function->isDeprecated(),
        'generator' => $function->isGenerator(),
        'attributes' => describeAttributes($function),
    ];
}

/** What the class itself declares; inherited members belong to its parent. */
function own(ReflectionClass $class, array $members): array
{
    $own = [];
    foreach ($members as $member) {
        if ($member->getDeclaringClass()->getName() === $class->getName()) {
            $own[$member->getName()] = $member;
        }
    }
    ksort($own);

    return $own;
}

function describeClass(ReflectionClass $class): array
{
    $modifiers = static fn ($member) => implode(' ', Reflection::getModifierNames($member->getModifiers()));

    return [
        'kind' => match (true) {
            $class->isInterface() => 'interface',
            $class->isTrait() => 'trait',
            $class->isEnum() => 'enum',
            default => 'class',
        },
        'parent' => $class->getParentClass() ? $class->getParentClass()->getName() : null,
        'interfaces' => $class->getInterfaceNames(),
        'modifiers' => $modifiers($class),
        'readonly' => method_exists($class, 'isReadOnly') && $class->isReadOnly(),
        'attributes' => describeAttributes($class),
        'constants' => array_map(static fn (ReflectionClassConstant $constant) => [
            'modifiers' => $modifiers($constant),
            'value' => var_export($constant->getValue(), true),
        ], own($class, $class->getReflectionConstants())),
        'properties' => array_map(static fn (ReflectionProperty $property) => [
            'modifiers' => $modifiers($property),
            'type' => describeType($property->getType()),
            'default' => $property->hasDefaultValue() ? var_export($property->getDefaultValue(), true) : 'none',
            'attributes' => describeAttributes($property),
        ], own($class, $class->getProperties())),
        'methods' => array_map(static fn (ReflectionMethod $method) => [
            'modifiers' => $modifiers($method),
        ] + describeFunction($method), own($class, $class->getMethods())),
    ];
}

if (extension_loaded('redis_lease')) {
    $extension = new ReflectionExtension('redis_lease');
    $classes = array_values($extension->getClasses());
    $functions = array_values($extension->getFunctions());
    $constants = $extension->getConstants();
} else {
    // A file may extend what another declares.
    spl_autoload_register(static function (string $class) use ($argv): void {
        foreach ($argv as $file) {
            if (preg_match('/^(?:\w+ )*class ' . substr(strrchr("\\$class", '\\'), 1) . '\b/m', file_get_contents($file))) {
                require_once $file;
            }
        }
    });
    $argv = array_map(realpath(...), array_slice($argv, 1));
    array_map(static fn (string $file) => require_once $file, $argv);
    $isStub = static fn ($reflector) => in_array($reflector->getFileName(), $argv, true);
    $classes = array_map(
        static fn (string $name) => new ReflectionClass($name),
        array_merge(get_declared_classes(), get_declared_interfaces(), get_declared_traits()),
    );
    $classes = array_filter($classes, $isStub);
    $functions = array_map(static fn (string $name) => new ReflectionFunction($name), get_defined_functions()['user']);
    $functions = array_filter($functions, $isStub);
    $functions = array_filter($functions, static fn ($function) => $function->getFileName() !== __FILE__);
    $constants = get_defined_constants(true)['user'] ?? [];
}

$named = static function (array $reflectors, callable $describe): array {
    $described = [];
    foreach ($reflectors as $reflector) {
        $described[$reflector->getName()] = $describe($reflector);
    }
    ksort($described);

    return $described;
};

echo json_encode([
    'classes' => $named($classes, describeClass(...)),
    'functions' => $named($functions, describeFunction(...)),
    'constants' => array_map(static fn ($value) => var_export($value, true), $constants),
], JSON_THROW_ON_ERROR | JSON_PRETTY_PRINT);
