<?php

/*
 * Symfony 7 asks Composer which packages are installed. Debian's packages have no Composer: none is, in its sense, and
 * then the classes that are there count.
 */

declare(strict_types=1);

namespace Composer;

if (!class_exists(InstalledVersions::class)) {
    final class InstalledVersions
    {
        public static function isInstalled(string $package, bool $includeDevRequirements = true): bool
        {
            return false;
        }

        public static function getRootPackage(): array
        {
            return ['name' => 'app'];
        }
    }
}
